# SPDX-License-Identifier: Apache-2.0
"""usage: bench/ranks [--ranks 1,2,4,8,16,32,64] [--nodes 1,4] [--config CONFIG] [--repeats N] [OPTION ...]

Starts so many ranks, divided among so many launchers, which take each other for other hosts (UCX), all on this machine's cores.
Prints how long a run of one iteration takes from end to end, per rank and core too, and what a rank of a longer
run takes of memory: alone (private) and with its share of what ranks share (PSS), and the files it has open. Medians
of repeats. Other options go to `runner`."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests"))
from machine import ROOT, machine  # noqa: E402
from runner import RUNNER, SECRET, environment, free_port  # noqa: E402

SHARDS = 64
WARM_S = 3  # a run's first updates, after which its memory is looked at


def read_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ranks", default="1,2,4,8,16,32,64")
    parser.add_argument("--nodes", default="1,4")
    parser.add_argument("--config", default="configs/cartpole_dqn_ddp.yaml")
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_known_args()


def start(ranks, nodes, words):
    port = str(free_port())
    launch = [RUNNER, "launch", "--nproc-per-node", str(ranks // nodes), "--nnodes", str(nodes), "--master-addr", "127.0.0.1",
              "--master-port", port, *words]
    return [subprocess.Popen([*launch, "--node-rank", str(node)], env=environment(HEDDLE_SECRET=SECRET), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for node in range(nodes)]


def wait(launchers):
    said = "".join(launcher.communicate()[0] for launcher in launchers)
    if any(launcher.returncode for launcher in launchers):
        sys.exit(said)


def read_children(launchers):
    found = []
    for launcher in launchers:
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="ascii") as file:
            found += file.read().split()
    return found


def read_memory(pid):
    """{kind: MB} of a process."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        kb = {line.split(":")[0]: int(line.split()[1]) for line in file if line.endswith("kB\n")}
    return {"private": (kb["Private_Clean"] + kb["Private_Dirty"]) / 1e3, "pss": kb["Pss"] / 1e3,
            "files": len(os.listdir(f"/proc/{pid}/fd"))}


def measure(ranks, nodes, words):
    with tempfile.TemporaryDirectory(prefix="heddle-ranks-") as scratch:
        begin = time.monotonic()
        wait(start(ranks, nodes, [*words, "--dir", f"{scratch}/one", "--set", "max_train_iter=1"]))
        seconds = time.monotonic() - begin
        launchers = start(ranks, nodes, [*words, "--dir", f"{scratch}/long", "--set", "max_train_iter=1000000000"])
        time.sleep(seconds + WARM_S)
        memory = [read_memory(pid) for pid in read_children(launchers)]
        for launcher in launchers:
            launcher.kill()  # its ranks end with it
        for launcher in launchers:
            launcher.communicate()
    if len(memory) != ranks:
        sys.exit(f"{len(memory)} of {ranks} ranks are there after {seconds + WARM_S:.1f} s")
    return {"s": seconds, **{kind: statistics.mean(found[kind] for found in memory) for kind in memory[0]}}


def main():
    options, more = read_arguments()
    os.chdir(ROOT)
    cores = len(os.sched_getaffinity(0))
    words = [options.config, "--quiet", "--set", f"world.shards={SHARDS}", "--set", "env.stop_value=1e9", *more]
    print(f"{options.config} with {SHARDS} shards ({machine()}), medians of {options.repeats}\n")
    print("nodes ranks  run of one iteration   per rank and core   private MB   PSS MB   files")
    for nodes in map(int, options.nodes.split(",")):
        for ranks in [n for n in map(int, options.ranks.split(",")) if n >= nodes]:
            runs = [measure(ranks, nodes, words) for _ in range(options.repeats)]
            run = {what: statistics.median(found[what] for found in runs) for what in runs[0]}
            print(f"{nodes:5} {ranks:5} {run['s']:19.2f} s {1e3 * run['s'] / ranks * cores:16.1f} ms {run['private']:12.1f} "
                  f"{run['pss']:8.1f} {run['files']:7.0f}", flush=True)


main()
