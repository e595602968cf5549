#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Addresses of rank 0's host: a name of IPv4 and of IPv6, of which the other node knows one alone, and an address in
brackets lead to rank 0. An address that leads nowhere, and a host without loopback, are told at once."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nodes import Nodes, address_of, run  # noqa: E402
from runner import CONFIG, RUNNER, Scratch, call, check, environment, launch_nodes, result, sets, train  # noqa: E402

KEYS = sets(world__shards=2, max_train_iter=20, env__stop_value="1e9")
SIX = "fd88::1"


def with_hosts(scratch, name, *addresses):
    """Words before a command, for which `both` has these addresses."""
    with open(scratch(name), "w", encoding="ascii") as file:
        file.write("127.0.0.1 localhost\n" + "".join(f"{address} both\n" for address in addresses))
    return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', scratch(name)]


def check_names(scratch, reference):
    with Nodes(1000) as nodes:
        for node, device in enumerate(nodes.devices):
            run("ip", "-n", nodes.names[node], "addr", "add", f"fd88::{node + 1}/64", "dev", device, "nodad")
        root = nodes.inside(0) + with_hosts(scratch, "both", SIX, address_of(0))
        four = nodes.inside(1) + with_hosts(scratch, "four", address_of(0))
        six = nodes.inside(1) + with_hosts(scratch, "six", SIX)
        for what, other, address in (("IPv4 of two", four, "both"), ("IPv6 of two", six, "both"),
                                     ("brackets", six, f"[{SIX}]")):
            directory = scratch(what)
            launch_nodes(2, 2, CONFIG, "--dir", directory, *KEYS, prefixes=[root, other], address=address)
            check(result(directory)["param_hash"] == reference, f"{what}: other bits")
            print(what)


def check_refusals(scratch):
    for address in ("0.0.0.0", "::", "[::]"):
        done = call("launch", "--nnodes=2", "--node-rank=1", f"--master-addr={address}", CONFIG, "--insecure", expect=2)
        check(f"--master-addr is '{address}': expected a name or an address of rank 0's host" in done.stderr, done.stderr)
        done = call("run", CONFIG, "--insecure", expect=2,
                    env=environment(RANK=1, WORLD_SIZE=2, MASTER_ADDR=address, MASTER_PORT=29500))
        check(f"MASTER_ADDR is '{address}'" in done.stderr, done.stderr)
    rank = environment(RANK=1, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=29500)
    for command, env in ((["launch", "--nproc-per-node=2"], environment()), (["run", "--insecure"], rank)):
        done = subprocess.run(["unshare", "--net", RUNNER, *command, CONFIG, "--dir", scratch("down"), *KEYS], env=env,
                              text=True, capture_output=True, timeout=300)
        check(done.returncode == 1 and "Network is unreachable" in done.stderr and "loopback" in done.stderr and
              "waiting" not in done.stderr, f"without loopback: {done.returncode}: {done.stderr}")


def main():
    with Scratch() as scratch:
        reference = train(scratch("one"), *KEYS)["param_hash"]
        check_names(scratch, reference)
        check_refusals(scratch)


main()
