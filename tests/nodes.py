# SPDX-License-Identifier: Apache-2.0
"""mpirun on this host, and nodes in network namespaces of their own, joined by shaped links."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from runner import RUNNER, TIMEOUT, environment, launch_nodes, skip

SUBNET = "10.77.0.0/24"


def address_of(node):
    return f"10.77.0.{node + 1}"


def mpi_environment(**more):
    """Tests run as root in containers, and more ranks than cores."""
    return environment(OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1,
                       OMPI_MCA_rmaps_base_oversubscribe=1, OMPI_MCA_hwloc_base_binding_policy="none",
                       **more)


def need_mpi():
    if not shutil.which("mpirun"):
        skip("there is no mpirun (Debian: openmpi-bin)")
    if not os.path.exists(os.path.join(os.path.dirname(RUNNER), "plugins/heddle_mpi.so")):
        skip("this build has no plug-in for MPI (Debian: libopenmpi-dev)")


def mpirun(ranks, *arguments, prefix=(), options=(), per_node=None, **more):
    """Runs `runner` under mpirun, as if each `per_node` ranks had a node of their own; returns what subprocess.run
    does."""
    local = [] if per_node is None else ["sh", "-c", 'OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % $0)) '
                                         'OMPI_COMM_WORLD_LOCAL_SIZE=$0 exec "$@"', str(per_node)]
    command = [*prefix, "mpirun", "-n", str(ranks), *options, *local, RUNNER, *arguments]
    return subprocess.run(command, env=mpi_environment(**more), text=True, capture_output=True,
                          timeout=TIMEOUT)


def run(*command, quiet=False):
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0 and not quiet:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Nodes:
    """Network namespaces with a host name each, joined by a switch, all gone afterwards, also when the test is
    stopped. The switch is the kernel's in another namespace, or with `delay_us`, by which frames arrive later,
    tests/harness/link.c. A test that may not have them is skipped."""

    def __init__(self, mbit, n=2, delay_us=None):
        self.mbit, self.delay_us, self.link = mbit, delay_us, None
        self.switch = f"heddle{os.getpid()}s"
        self.names = [f"heddle{os.getpid()}n{node}" for node in range(n)]
        self.devices = [f"hd{os.getpid()}n{node}" for node in range(n)]

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))
        self.scratch = tempfile.mkdtemp(prefix="heddle-nodes-")
        try:
            self.build()
        except OSError as why:
            self.__exit__()
            skip(f"no network namespaces here: {why}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        if self.delay_us is None:
            run("ip", "netns", "add", self.switch)
            run("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "switch", "up")
        else:
            command = [os.path.join(os.path.dirname(RUNNER), "tests/link"), str(self.mbit), str(self.delay_us)]
            self.link = subprocess.Popen([*command, *self.devices], stdout=subprocess.PIPE, text=True)
            if self.link.stdout.readline() != "ready\n":
                raise OSError("tests/harness/link.c cannot make its devices")
        for node in range(len(self.names)):
            self.add(node)
        self.agent = os.path.join(self.scratch, "agent")
        with open(self.agent, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n# Open MPI's idea of ssh: HOST COMMAND...\nnode=$((${1##*.} - 1))\nshift\n"
                       f'exec ip netns exec {self.names[0][:-1]}$node unshare --uts sh -c "hostname node$node; $*"\n')
        os.chmod(self.agent, 0o700)

    def add(self, node):
        run("ip", "netns", "add", self.names[node])
        run("ip", "-n", self.names[node], "link", "set", "lo", "up")
        self.join(node)

    def join(self, node):
        """Gives a node its device and address, also anew."""
        name, device = self.names[node], self.devices[node]
        run("ip", "-n", name, "link", "del", device, quiet=True)
        if self.link:
            run("ip", "link", "set", device, "netns", name)
        else:
            run("ip", "link", "add", device, "netns", name, "type", "veth", "peer", "name", device, "netns",
                self.switch)
            run("ip", "-n", self.switch, "link", "set", device, "master", "switch", "up")
        run("ip", "-n", name, "addr", "add", f"{address_of(node)}/24", "dev", device)
        run("ip", "-n", name, "link", "set", device, "up")
        if not self.link:
            self.shape(name, device)
            self.shape(self.switch, device)

    def shape(self, name, device):
        """A token bucket of a millisecond's worth; its queue holds 20 ms."""
        burst = max(self.mbit * 125, 64000)
        run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
            f"{self.mbit}mbit", "burst", str(burst), "latency", "20ms")

    def find_congestion_control(self):
        """Asks for cubic, Linux's default, which a node may not have where the machine allows others only; returns what
        the nodes have."""
        for name in self.names:
            run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=cubic", quiet=True)
        return run("ip", "netns", "exec", self.names[0], "sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()

    def set_rate(self, mbit):
        self.mbit = mbit
        for name, device in zip(self.names, self.devices):
            self.shape(name, device)
            self.shape(self.switch, device)

    def __exit__(self, *_):
        for name in (*self.names, self.switch):
            for pid in run("ip", "netns", "pids", name, quiet=True).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            run("ip", "netns", "del", name, quiet=True)
        if self.link:
            self.link.kill()
            self.link.communicate()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def set_link(self, node, state):
        """Takes a node's link away ("down"), or gives it back ("up")."""
        run("ip", "-n", self.switch, "link", "set", self.devices[node], state)

    def cut(self, seconds):
        """Takes the first node's link away for some seconds."""
        self.set_link(0, "down")
        time.sleep(seconds)
        self.set_link(0, "up")

    def inside(self, node):
        return ["ip", "netns", "exec", self.names[node]]

    def mpirun(self, ranks_per_node, *arguments, **more):
        hosts = ",".join(f"{address_of(node)}:{ranks_per_node}" for node in range(len(self.names)))
        options = ["-H", hosts, "--mca", "plm_rsh_agent", self.agent, "--mca", "pml", "ob1", "--mca", "btl",
                   "tcp,self", "--mca", "btl_tcp_if_include", SUBNET, "--mca", "oob_tcp_if_include", SUBNET]
        return mpirun(len(self.names) * ranks_per_node, *arguments, prefix=self.inside(0), options=options, **more)

    def launch(self, ranks_per_node, *arguments, **more):
        """A launcher in each node (runner.launch_nodes)."""
        n = len(self.names)
        return launch_nodes(n, n * ranks_per_node, *arguments, prefixes=[self.inside(node) for node in range(n)],
                            address=address_of(0), **more)

    def sent(self):
        """Bytes that each node has sent."""
        return [int(run(*self.inside(node), "cat", f"/sys/class/net/{device}/statistics/tx_bytes"))
                for node, device in enumerate(self.devices)]
