#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soft actor-critic: it learns the pendulum; ranks, executors, buckets and microbatches
on their ranks end in one param_hash; killed runs resume to the same bits; recordings hold what the environment took."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, train  # noqa: E402
from test_actions import read  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

PENDULUM = os.path.join(ROOT, "configs/pendulum_sac.yaml")
SHORT = dict(config=PENDULUM, env__stop_value="1e9", max_train_iter=160, policy__random_collect_size=64,
             policy__learn__microbatch=32, policy__eval__evaluator__eval_freq=80)
WAYS = [dict(ranks=2), dict(ranks=4, runtime__scheduler="eager"), dict(runtime__executor="sequential"),
        dict(ranks=2, strategy__bucket_mb=0.05, strategy__shard_optimizer_above_mb=0, runtime__workers=2)]


def check_bits(scratch):
    wanted = check_ways(scratch, "ways", SHORT, WAYS)
    for key, value in (("policy__learn__auto_alpha", "false"), ("policy__collect__noise_repeat", 3),
                       ("policy__learn__target_theta", 0.1), ("policy__learn__learning_rate_q", 0.01)):
        other = train(scratch(key), **{**SHORT, key: value})
        check(other["param_hash"] != wanted, f"{key} has no effect")


def check_learning(scratch):
    run = train(scratch("pendulum"), config=PENDULUM)
    print(f"pendulum: return {run['eval_value']:.0f} after {run['env_step']} steps")
    check(run["reason"] == "solved" and run["env_step"] <= 20000, f"the pendulum is not learned: {run}")


def check_recording(scratch):
    """The recorded torques are those between the bounds of the environment, up to 2."""
    weights = scratch("pendulum/ckpt/best/policy.safetensors")
    call("record", PENDULUM, "--weights", weights, "--transitions", "800", "--epsilon", "0.5", "--out", scratch("data"))
    _, action, data = read(scratch("data/transitions-00001-of-00001.safetensors"))
    torques = memoryview(data).cast("f")
    check(action["shape"] == [800] and 1.5 < max(torques) <= 2 and -2 <= min(torques) < -1.5, "other torques")


def main():
    with Scratch() as scratch:
        check_bits(scratch)
        check_learning(scratch)
        check_recording(scratch)
        keys = dict(env__stop_value="1e9", max_train_iter=1500, policy__random_collect_size=64, world__shards=4)
        check_kills(scratch, "sac", PENDULUM, keys, (1, 2, 4), 3)


main()
