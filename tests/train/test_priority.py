#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DQN from prioritised replay learns CartPole; ranks, workers, buffers and executors end in one
param_hash; with alpha 0 that is the hash of DQN without priorities; killed runs resume to the same bits."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import CONFIG, ROOT, Scratch, check, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

PRIORITY = os.path.join(ROOT, "configs/cartpole_dqn_priority.yaml")
LONG = dict(env__stop_value="1e9", max_train_iter=200)
# The replay overwrites its transitions many times.
SMALL = dict(LONG, policy__other__replay_buffer__replay_buffer_size=100)
WAYS = [dict(ranks=2), dict(ranks=4, strategy__bucket_mb=0.02), dict(runtime__executor="sequential"),
        dict(strategy__batch_buffers=2, runtime__workers=2, runtime__max_inflight_iterations=4,
             runtime__scheduler="random")]
CASES = {"small": SMALL, "lag": dict(SMALL, strategy__policy_lag=1, strategy__batch_buffers=2),
         "microbatches": dict(SMALL, policy__nstep=3, policy__learn__microbatch=16, policy__learn__accumulate=2,
                              policy__learn__batch_size=32)}


def check_uniform(scratch):
    """Equal weights are drawn like no weights, and one is not like the other."""
    wanted = train(scratch("dqn"), config=CONFIG, **LONG)["param_hash"]
    found = train(scratch("uniform"), config=PRIORITY, policy__priority_IS_weight="false",
                  policy__other__replay_buffer__alpha=0, **LONG)["param_hash"]
    weighed = train(scratch("alpha"), config=PRIORITY, policy__priority_IS_weight="false", **LONG)["param_hash"]
    check(found == wanted and weighed != wanted, f"{found}, not {wanted}; {weighed}")
    print(f"alpha 0 ends in {found}, as DQN without priorities")


def check_learning(scratch):
    run = train(scratch("learn"), config=PRIORITY, max_train_iter=3000)
    check(run["reason"] == "solved", f"{run}")
    print(f"solved after {run['train_iter']} updates, {run['env_step']} env steps")


def main():
    with Scratch() as scratch:
        hashes = [check_ways(scratch, name, dict(base, config=PRIORITY), WAYS) for name, base in CASES.items()]
        check(len(set(hashes)) == len(hashes), f"{hashes}")
        check_uniform(scratch)
        check_learning(scratch)
        check_kills(scratch, "priority", PRIORITY, dict(SMALL, max_train_iter=3000), (1, 2, 4), 4)


main()
