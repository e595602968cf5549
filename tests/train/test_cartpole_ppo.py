#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CartPole PPO learns: seeds 0-9 all, in a median of updates that is at most DI-engine's (seeds 0-4). Two shards, whose
gradients are averaged, need fewer env steps each than one alone, which takes evaluating often to see. With the fast
graph the best policy is kept with the statistics that it sees by: evaluated again it returns the same."""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, train  # noqa: E402

CONFIG = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
DI_ENGINE = [312, 936, 208, 208, 312]


def solve(scratch, shards, seed, **keys):
    run = train(scratch(f"{shards}-{seed}-{len(keys)}"), "--seed", str(seed), config=CONFIG,
                world__shards=shards, max_train_iter=20000, **keys)
    check(run["reason"] == "solved" and run["stop"], f"{shards} shards, seed {seed}: {run}")
    return run


def check_best(scratch, seed):
    directory, graph = scratch(f"fast-{seed}"), os.path.join(ROOT, "configs/graphs/ppo_fast.yaml")
    run = train(directory, "--seed", str(seed), config=CONFIG, graph=graph, max_train_iter=20000,
                policy__learn__lr_scheduler__type="kl")
    check(run["reason"] == "solved", f"ppo_fast, seed {seed}: {run}")
    said = call("eval", CONFIG, "--seed", str(seed), "--weights", os.path.join(directory, "ckpt/best/policy.safetensors"),
                "--episodes", "5", "--set", f"graph={graph}").stdout
    returns = [float(word) for word in said.split("returns")[1].split()]
    check(returns == run["eval_value_raw"], f"the best policy returns {returns}, not {run['eval_value_raw']}")


def main():
    with Scratch() as scratch:
        updates = [solve(scratch, 1, seed)["train_iter"] for seed in range(10)]
        print(f"updates {updates}, median {statistics.median(updates)}")
        check(statistics.median(updates) <= statistics.median(DI_ENGINE),
              f"the median of {updates} is too high")
        steps = {shards: [solve(scratch, shards, seed, policy__eval__evaluator__eval_freq=8)["env_step"] / shards
                          for seed in range(20)] for shards in (1, 2)}
        medians = {shards: statistics.median(of) for shards, of in steps.items()}
        print(f"env steps per shard: {steps}, medians {medians}")
        for seed in range(3):
            check_best(scratch, seed)
        check(medians[2] < medians[1], f"env steps per shard of 1 and 2 shards: {medians}")


main()
