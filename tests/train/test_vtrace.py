#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""V-trace learns CartPole from samples of older policies; ranks, bucket sizes and executors end in one param_hash; killed
runs resume to the same bits. Without a lag there is nothing to correct: it is A2C with lambda 1, to the bit."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, sets, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

CONFIG, A2C = (os.path.join(ROOT, f"configs/cartpole_{name}_ddp.yaml") for name in ("vtrace", "a2c"))
SHORT = dict(env__stop_value="1e9", max_train_iter=60)
WAYS = [dict(ranks=2), dict(ranks=4, strategy__bucket_mb=0.02), dict(runtime__executor="sequential"),
        dict(runtime__workers=2, runtime__max_inflight_iterations=4, runtime__scheduler="random")]


def check_correction(scratch):
    keys = dict(SHORT, policy__collect__gae_lambda=1)
    for lag in (0, 2):
        hashes = [train(scratch(f"{name}{lag}"), config=config, strategy__policy_lag=lag, **keys)["param_hash"]
                  for name, config in (("vtrace", CONFIG), ("a2c", A2C))]
        check((hashes[0] == hashes[1]) == (lag == 0), f"lag {lag}: V-trace and A2C end in {hashes}")


def check_refused(scratch):
    with open(os.path.join(ROOT, "configs/graphs/vtrace.yaml"), encoding="utf-8") as file:
        text = file.read()
    for config, changed, said in ((CONFIG, text.replace("{estimator: vtrace,", "{estimator: vtrace, values: collected,"), "values"),
                                  (os.path.join(ROOT, "configs/pendulum_ppo.yaml"), text.replace("loss: vtrace", "loss: ppo"),
                                   "one choice")):
        with open(scratch("graph.yaml"), "w", encoding="utf-8") as file:
            file.write(changed)
        done = call("graph", config, *sets(graph=scratch("graph.yaml")), expect=2).stderr
        check(f"{scratch('graph.yaml')}:4" in done and "estimator: vtrace" in done and said in done, done)


def main():
    with Scratch() as scratch:
        check_refused(scratch)
        check_ways(scratch, "ways", dict(SHORT, config=CONFIG), WAYS)
        check_correction(scratch)
        for lag in (1, 4):
            run = train(scratch(f"learn{lag}"), config=CONFIG, strategy__policy_lag=lag, max_train_iter=5000)
            check(run["reason"] == "solved", f"{run}")
            print(f"lag {lag}: solved after {run['train_iter']} updates, {run['env_step']} env steps")
        check_kills(scratch, "vtrace", CONFIG, dict(env__stop_value="1e9", max_train_iter=4000), (1, 2), 2)


main()
