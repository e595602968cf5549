#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CartPole DQN learns: seeds 0-9, on one shard, on two shards of two ranks, and on four. The median of the
updates needed is at most 1.5 times that of DI-engine (seeds 0-4: 640, 760, 600, 720, 600)."""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import Scratch, check, train  # noqa: E402

DI_ENGINE = [640, 760, 600, 720, 600]
SEEDS = range(10)


def main():
    with Scratch() as scratch:
        for shards, ranks in ((1, 1), (2, 2), (4, 1)):
            runs = [train(scratch(f"{shards}-{seed}"), "--seed", str(seed), ranks=ranks,
                          max_train_iter=20000, world__shards=shards) for seed in SEEDS]
            updates = [run["train_iter"] for run in runs]
            print(f"{shards} shards: updates {updates}, median {statistics.median(updates)}; "
                  f"env steps {[run['env_step'] for run in runs]}")
            check(all(run["reason"] == "solved" and run["stop"] for run in runs), "not all solved")
            check(statistics.median(updates) <= 1.5 * statistics.median(DI_ENGINE),
                  f"the median of {updates} is too high")


main()
