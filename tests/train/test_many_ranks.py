#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""1 to 64 ranks on 1 to 8 nodes: one param_hash over transports, nodes, ranks and strategies without lags. Nothing
is left behind: no process, no System V segment, no file of shared memory. HD_MANY_RANKS=all tries all combinations;
else some of each."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nodes import Nodes, mpirun, need_mpi  # noqa: E402
from runner import ROOT, Scratch, check, check_no_orphans, launch_nodes, result, sets, train  # noqa: E402
from ways import take_share  # noqa: E402

EVERY = os.environ.get("HD_MANY_RANKS") == "all"
SHARDS = 64
RUNS = {
    "dqn": ("configs/cartpole_dqn_ddp.yaml", {}),
    "ppo": ("configs/cartpole_ppo_ddp.yaml", dict(policy__collect__n_sample=SHARDS)),
}
STRATEGIES = {
    "serial": {},
    "bucketed": dict(strategy__bucket_mb=0.02),
    "pairs": dict(runtime__exchange="pairs"),
    "halves": dict(runtime__exchange="halves"),
    "sharded": dict(strategy__bucket_mb=0.02, strategy__shard_optimizer_above_mb=0),
    "sharded by halves": dict(strategy__bucket_mb=0.02, strategy__shard_optimizer_above_mb=0,
                              runtime__exchange="halves"),
}
# Ranks that share a core with 31 others may be silent for long.
FIXED = dict(world__shards=SHARDS, max_train_iter=12, env__stop_value="1e9", runtime__heartbeat_timeout_s=60)
SOME = {(8, 1, "shm"), (64, 1, "shm"), (16, 16, "tcp"), (64, 8, "tcp"), (16, 4, "mpi")}
FEW, FEW_STRATEGIES = 16, ("sharded", "sharded by halves")  # with more ranks


class Table:
    """Runs combinations and compares their hashes with that of one rank."""

    def __init__(self, scratch):
        self.scratch, self.rows, self.references = scratch, 0, {}

    def options(self, name, strategy, transport):
        config, keys = RUNS[name]
        directory = self.scratch(f"run{self.rows}")
        keys = {**FIXED, **keys, **STRATEGIES[strategy], "runtime__transport": transport}
        return directory, [os.path.join(ROOT, config), "--dir", directory, "--quiet", *sets(**keys)]

    def reference(self, name):
        if name not in self.references:
            config, keys = RUNS[name]
            self.references[name] = train(self.scratch(name), config=os.path.join(ROOT, config),
                                          **FIXED, **keys)["param_hash"]
        return self.references[name]

    def add(self, name, strategy, ranks, nodes, transport, start):
        """start(directory, options) runs it."""
        directory, options = self.options(name, strategy, transport)
        begin = time.monotonic()
        start(options)
        seconds, found, expected = time.monotonic() - begin, result(directory)["param_hash"], self.reference(name)
        what = f"{name} {strategy:17} {ranks:2} ranks, {nodes:2} nodes, {transport}"
        check(found == expected, f"{what}: {found}, not {expected}")
        check_no_orphans()
        self.rows += 1
        print(f"{what}: {found} after {seconds:.1f} s", flush=True)


def under_mpirun(ranks, per_node, options):
    done = mpirun(ranks, "run", *options, per_node=per_node)
    check(done.returncode == 0, done.stdout + done.stderr)


def list_runs(strategies, place):
    """Runs with strategies, or a share of them."""
    runs = [(name, strategy) for name in RUNS for strategy in strategies]
    return runs if EVERY else take_share(runs, f"{place}")


def one_host(table, combinations, strategies):
    """Nodes that share this host's network."""
    for place in combinations:
        ranks, nodes, transport = place
        for name, strategy in list_runs(strategies if EVERY or ranks <= FEW else FEW_STRATEGIES, place):
            if nodes == 1 and "runtime__exchange" in STRATEGIES[strategy]:
                continue
            if transport == "mpi":
                start = lambda options: under_mpirun(ranks, ranks // nodes, options)  # noqa: E731
            else:
                start = lambda options: launch_nodes(nodes, ranks, *options)  # noqa: E731
            table.add(name, strategy, ranks, nodes, transport, start)


def namespaces(table, n, combinations, strategies):
    with Nodes(1000, n) as nodes:
        for ranks, transport in combinations:
            for name, strategy in list_runs(strategies, (ranks, n, transport, "namespaces")):
                def start(options):
                    if transport == "mpi":
                        done = nodes.mpirun(ranks // n, "run", *options)
                        check(done.returncode == 0, done.stdout + done.stderr)
                    else:
                        nodes.launch(ranks // n, *options)
                table.add(name, strategy, ranks, n, transport, start)


def main():
    strategies = [name for name in STRATEGIES if EVERY or name not in ("serial", "bucketed")]
    need_mpi()
    with Scratch() as scratch:
        table = Table(scratch)
        combinations = [(ranks, 1, "shm") for ranks in (2, 4, 8, 16, 32, 64)]
        combinations += [(ranks, nodes, transport) for transport in ("tcp", "mpi") for ranks in (2, 4, 8, 16, 32, 64)
                         for nodes in (2, 4, 8, 16, 32, 64) if nodes <= ranks]
        one_host(table, [row for row in combinations if EVERY or row in SOME], strategies)
        print("in network namespaces:")
        for n in (2, 4, 8) if EVERY else (4,):
            namespaces(table, n, [(ranks, transport) for transport in ("tcp", "mpi")
                                  for ranks in ((8, 16, 32, 64) if EVERY else (16,))], strategies)
    print(f"{table.rows} combinations, one param_hash for each of {table.references}")


main()
