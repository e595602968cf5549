#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two nodes whose connection breaks while the rendezvous lives or not, and links that cannot be made: each ends the run
with a sentence that names both ends. HD_ROUNDS=N breaks each kind N times."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attacks import listening_ports
from processes import CONFIG, ENDLESS, build_library, check, end, environment, free_port, start, wait_for_training
from nodes import Nodes, address_of, run
from runner import SECRET, Scratch, sets, skip

ROUNDS = int(os.environ.get("HD_ROUNDS", "1"))
LINK_TIMEOUT_S = 16
KEYS = dict(runtime__link_timeout_s=LINK_TIMEOUT_S, runtime__watchdog_s=120)

REFUSE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
/* A firewall that lets through only rank 0's first port. */
int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    const int port = ntohs(((const struct sockaddr_in *)to)->sin_port);
    if (to->sa_family != AF_INET || port == 0 || port == atoi(getenv("MASTER_PORT")))
        return next(fd, to, length);
    errno = atoi(getenv("REFUSAL"));
    return -1;
}
"""


def launch(nodes, node, port, directory, *options, **env):
    command = ["launch", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1", "--master-addr", address_of(0),
               "--master-port", str(port), CONFIG, "--dir", directory, "--quiet", *options]
    return start(*command, prefix=nodes.inside(node), env=environment(HEDDLE_SECRET=SECRET, **env))


def break_link(nodes, scratch, name, action, expected, seconds):
    """Breaks a run that trains. A rank says one of what is expected. `seconds` is many times what that takes."""
    port, directory = free_port(), scratch(name)
    runs = [launch(nodes, node, port, directory, *ENDLESS, *sets(runtime__transport="tcp", **KEYS)) for node in range(2)]
    wait_for_training(runs[0], directory)
    begin = time.monotonic()
    action(port)
    while all(run.poll() is None for run in runs) and time.monotonic() - begin < 60:
        time.sleep(0.01)
    took = time.monotonic() - begin
    ends = [end(run, 60) for run in runs]
    text = "".join(text for _, text, _ in ends)
    check([code for code, _, _ in ends] == [1, 1], f"{name}: {text}")
    check(any(each in text for each in expected), f"{name}: nobody says one of {expected}: {text}")
    check(took < seconds, f"{name}: {took:.1f} s: {text}")
    print(f"{name}: told after {took:.1f} s", flush=True)


def reset(nodes):
    """The rendezvous's connection stays."""
    def kill(port):
        gone = run(*nodes.inside(0), "ss", "-KtnH", "state", "established",
                   f"( sport != :{port} and dport != :{port} )", quiet=True)
        if not gone.strip():
            skip("this kernel does not end others' connections (ss -K)")
    return kill


def refuse(nodes, scratch, name, expected, transport="tcp", **env):
    port = free_port()
    begin = time.monotonic()
    runs = [launch(nodes, node, port, scratch(name), *sets(runtime__transport=transport, **KEYS),
                   HD_RENDEZVOUS_TIMEOUT_S=6, **env) for node in range(2)]
    ends = [end(run, 30) for run in runs]
    text = "".join(text for _, text, _ in ends)
    check([code for code, _, _ in ends] == [1, 1], f"{name}: {text}")
    check(expected in text, f"{name}: nobody says '{expected}': {text}")
    check(not any(listening_ports(run.pid) for run in runs), f"{name}: a rank still listens")
    print(f"{name}: told after {time.monotonic() - begin:.1f} s", flush=True)


def main():
    with Nodes(1000) as nodes, Scratch() as scratch:
        device = nodes.devices[1]
        places = [f"to rank {node} at {address_of(node)} ({nodes.devices[node]}) on " for node in range(2)]
        library = build_library(scratch("refuse.so"), REFUSE)
        refused = f"rank 0 cannot be reached from rank 1 at {address_of(0)} port "
        refuse(nodes, scratch, "a port that is refused", refused, LD_PRELOAD=library, REFUSAL=111)
        refuse(nodes, scratch, "a port that is filtered", refused, LD_PRELOAD=library, REFUSAL=110)
        refuse(nodes, scratch, "an interface that UCX does not have", places[1], "ucx", UCX_TLS="tcp,self",
               UCX_NET_DEVICES="eth9")
        refuse(nodes, scratch, "UCX without RDMA", "without RDMA runtime.transport is tcp", "ucx")
        for number in range(ROUNDS):
            break_link(nodes, scratch, f"a connection that is reset {number}", reset(nodes), places, 20)
            break_link(nodes, scratch, f"a host that answers nothing {number}", lambda _: nodes.set_link(0, "down"),
                       ["rank 1"], LINK_TIMEOUT_S + 30)
            nodes.set_link(0, "up")
            break_link(nodes, scratch, f"an address that is taken away {number}",
                       lambda _: run("ip", "-n", nodes.names[1], "addr", "flush", "dev", device),
                       ["this end's address is gone from the host"], 30)
            nodes.join(1)
            break_link(nodes, scratch, f"an interface that is taken away {number}",
                       lambda _: run("ip", "-n", nodes.names[1], "link", "del", device),
                       ["this end's address is gone from the host"], 30)
            nodes.join(1)


main()
