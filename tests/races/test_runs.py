#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a program with the thread sanitizer, checkpoints on. The program ends with another exit code
than expected when it has seen a race."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, train  # noqa: E402

DQN = "configs/cartpole_dqn_ddp.yaml"
PPO = "configs/cartpole_ppo_ddp.yaml"
RUNS = [("dqn over shared memory", DQN, {"runtime__transport": "shm"}),
        ("dqn over tcp", DQN, {"nodes": 2, "runtime__transport": "tcp", "strategy": "strategies/pipelined.yaml"}),
        ("ppo in overlapping parts", PPO, {"policy__collect__env_groups": 2, "policy__collect__overlap_act_step": "true"})]


def main():
    with Scratch() as scratch:
        for name, config, keys in RUNS:
            run = train(scratch(name), ranks=2, config=os.path.join(ROOT, config), max_train_iter=60, world__shards=2,
                        runtime__checkpoint_interval_s=0.5, env__stop_value=1e9, **keys)
            print(f"{name}: {run['reason']} after {run['train_iter']} updates in {run['wall_s']:.1f} s")
            check(run["train_iter"] >= 60, f"{name} ended early: {run}")


main()
