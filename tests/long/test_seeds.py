#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Algorithms learn with any seed: CartPole by DQN on one shard, on two of two ranks and on four, and by PPO, in a median
of updates like DI-engine's; two shards of PPO, whose gradients are averaged, need fewer env steps each than one alone,
which takes evaluating often to see; A2C, prioritised replay, cloning with 3 to 5 seeds; the continuous mountain car."""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, train  # noqa: E402

DQN_OF_DI_ENGINE = [640, 760, 600, 720, 600]
PPO_OF_DI_ENGINE = [312, 936, 208, 208, 312]


def solve(scratch, config, seeds, **keys):
    """The results of a run with each seed, all of which have to be solved."""
    path = config if os.path.isabs(config) else os.path.join(ROOT, "configs", config)
    runs = []
    for seed in seeds:
        runs.append(train(scratch(f"{len(os.listdir(scratch.path))}"), "--seed", str(seed), config=path, **keys))
        check(runs[-1]["reason"] == "solved" and runs[-1]["stop"], f"{config}, seed {seed}, {keys}: {runs[-1]}")
    print(f"{config}, {keys}: updates {[run['train_iter'] for run in runs]}, env steps {[run['env_step'] for run in runs]}")
    return runs


def check_median(runs, most):
    updates = [run["train_iter"] for run in runs]
    check(statistics.median(updates) <= most, f"the median of {updates} is above {most}")


def check_shards(scratch):
    steps = {shards: [run["env_step"] / shards for run in
                      solve(scratch, "cartpole_ppo_ddp.yaml", range(20), world__shards=shards, max_train_iter=20000,
                            policy__eval__evaluator__eval_freq=8)] for shards in (1, 2)}
    medians = {shards: statistics.median(of) for shards, of in steps.items()}
    check(medians[2] < medians[1], f"env steps per shard of 1 and 2 shards: {medians}")


def check_clones(scratch):
    train(scratch("teacher"))
    call("record", CONFIG, "--weights", scratch("teacher/ckpt/best/policy.safetensors"), "--transitions", "10000", "--out",
         scratch("demos"), "--quiet")
    for ranks in (1, 2):
        solve(scratch, "cartpole_bc_ddp.yaml", range(3), ranks=ranks, policy__collect__data_path=scratch("demos"))


def main():
    with Scratch() as scratch:
        for shards, ranks in ((1, 1), (2, 2), (4, 1)):
            check_median(solve(scratch, CONFIG, range(10), ranks=ranks, world__shards=shards, max_train_iter=20000),
                         1.5 * statistics.median(DQN_OF_DI_ENGINE))
        check_median(solve(scratch, "cartpole_ppo_ddp.yaml", range(10), world__shards=1, max_train_iter=20000),
                     statistics.median(PPO_OF_DI_ENGINE))
        check_shards(scratch)
        solve(scratch, "cartpole_ppo_ddp.yaml", range(3), graph=os.path.join(ROOT, "configs/graphs/ppo_fast.yaml"),
              max_train_iter=20000, policy__learn__lr_scheduler__type="kl",
              policy__collect__normalize_obs="true", policy__collect__clip_obs=5)
        solve(scratch, "cartpole_a2c_ddp.yaml", range(5), max_train_iter=5000)
        solve(scratch, "cartpole_vtrace_ddp.yaml", range(5), max_train_iter=5000)
        for name in ("dqn", "ppo"):
            solve(scratch, f"cartpole_{name}_ddp.yaml", range(5), graph=f"graphs/{name}_local.yaml", max_train_iter=20000)
        solve(scratch, "cartpole_dqn_priority.yaml", range(2), max_train_iter=3000)
        solve(scratch, "mountain_car_continuous_sac.yaml", [0], max_env_step=50000)
        check_clones(scratch)


main()
