#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CartPole PPO learns. With the fast graph the best policy is kept with the statistics that it sees by: evaluated again
it returns the same. long/test_seeds tries other seeds and shards."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, train  # noqa: E402

CONFIG = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")


def check_best(scratch):
    directory, graph = scratch("fast"), os.path.join(ROOT, "configs/graphs/ppo_fast.yaml")
    run = train(directory, config=CONFIG, graph=graph, max_train_iter=20000, policy__learn__lr_scheduler__type="kl",
                policy__collect__normalize_obs="true", policy__collect__clip_obs=5)
    check(run["reason"] == "solved", f"ppo_fast: {run}")
    said = call("eval", CONFIG, "--weights", os.path.join(directory, "ckpt/best/policy.safetensors"), "--episodes", "5",
                "--set", f"graph={graph}").stdout
    returns = [float(word) for word in said.split("returns")[1].split()]
    check(returns == run["eval_value_raw"], f"the best policy returns {returns}, not {run['eval_value_raw']}")


def main():
    with Scratch() as scratch:
        run = train(scratch("ppo"), config=CONFIG, max_train_iter=20000)
        check(run["reason"] == "solved" and run["stop"], f"{run}")
        check_best(scratch)


main()
