# SPDX-License-Identifier: Apache-2.0
"""mpirun on this host, and two nodes in network namespaces of their own, joined by a shaped link."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from runner import RUNNER, environment, skip

NODES = ("10.77.0.1", "10.77.0.2")
SUBNET = "10.77.0.0/24"


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


def mpirun(ranks, *arguments, prefix=(), options=(), per_node=None, timeout=120, **more):
    """Runs `runner` under mpirun, as if each `per_node` ranks had a node of their own; returns what subprocess.run
    does."""
    local = [] if per_node is None else ["sh", "-c", 'OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % $0)) '
                                         'OMPI_COMM_WORLD_LOCAL_SIZE=$0 exec "$@"', str(per_node)]
    command = [*prefix, "mpirun", "-n", str(ranks), *options, *local, RUNNER, *arguments]
    return subprocess.run(command, env=mpi_environment(**more), text=True, capture_output=True,
                          timeout=timeout)


def run(*command, quiet=False):
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0 and not quiet:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Nodes:
    """Two network namespaces with a host name each and one link between them, all gone afterwards,
    also when the test is stopped. A test that may not have them is skipped."""

    def __init__(self, mbit):
        self.mbit = mbit
        self.names = [f"heddle{os.getpid()}{side}" for side in "ab"]
        self.devices = [f"hd{os.getpid()}{side}" for side in "ab"]

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
        names, devices = self.names, self.devices
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", devices[0], "netns", names[0], "type", "veth", "peer", "name", devices[1],
            "netns", names[1])
        for name, device, address in zip(names, devices, NODES):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", device)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", device, "up")
            self.shape(name, device)
        self.agent = os.path.join(self.scratch, "agent")
        with open(self.agent, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n# Open MPI's idea of ssh: HOST COMMAND...\nshift\n"
                       f'exec ip netns exec {names[1]} unshare --uts sh -c "hostname node2; $*"\n')
        os.chmod(self.agent, 0o700)

    def shape(self, name, device):
        """A token bucket of a millisecond's worth; its queue holds 20 ms."""
        burst = max(self.mbit * 125, 64000)
        run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
            f"{self.mbit}mbit", "burst", str(burst), "latency", "20ms")

    def set_rate(self, mbit):
        self.mbit = mbit
        for name, device in zip(self.names, self.devices):
            self.shape(name, device)

    def __exit__(self, *_):
        for name in self.names:
            for pid in run("ip", "netns", "pids", name, quiet=True).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            run("ip", "netns", "del", name, quiet=True)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def cut(self, seconds):
        """Takes the link away for some seconds."""
        for state, pause in (("down", seconds), ("up", 0)):
            run("ip", "-n", self.names[0], "link", "set", self.devices[0], state)
            time.sleep(pause)

    def inside(self, node):
        return ["ip", "netns", "exec", self.names[node]]

    def mpirun(self, ranks_per_node, *arguments, **more):
        hosts = ",".join(f"{address}:{ranks_per_node}" for address in NODES)
        options = ["-H", hosts, "--mca", "plm_rsh_agent", self.agent, "--mca", "pml", "ob1", "--mca", "btl",
                   "tcp,self", "--mca", "btl_tcp_if_include", SUBNET, "--mca", "oob_tcp_if_include", SUBNET]
        return mpirun(2 * ranks_per_node, *arguments, prefix=self.inside(0), options=options, **more)

    def sent(self):
        """Bytes that have crossed the link from each node."""
        return [int(run(*self.inside(node), "cat", f"/sys/class/net/{device}/statistics/tx_bytes"))
                for node, device in enumerate(self.devices)]
