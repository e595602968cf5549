#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""QR-DQN, whose net yields quantiles, learns CartPole by DQN's graph; its ranks, microbatches and executors end in one
param_hash; killed runs resume to the same bits."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

CONFIG = os.path.join(ROOT, "configs/cartpole_qrdqn.yaml")
SHORT = dict(config=CONFIG, env__stop_value="1e9", max_train_iter=200)
WAYS = [dict(ranks=2), dict(ranks=4, strategy__bucket_mb=0.02), dict(runtime__executor="sequential"),
        dict(runtime__workers=2, runtime__max_inflight_iterations=4, runtime__scheduler="random")]


def check_learning(scratch):
    folder = scratch("learn")
    run = train(folder, config=CONFIG, max_train_iter=5000)
    check(run["reason"] == "solved", f"{run}")
    played = json.loads(call("eval", folder, "--episodes", "4", "--json").stdout)
    check(played["mean"] > 150, f"{played}")
    print(f"solved after {run['train_iter']} updates, {run['env_step']} env steps")


def main():
    with Scratch() as scratch:
        check_ways(scratch, "ways", SHORT, WAYS)
        check_learning(scratch)
        check_kills(scratch, "qrdqn", CONFIG, dict(env__stop_value="1e9", max_train_iter=6000), (1, 2), 2)


main()
