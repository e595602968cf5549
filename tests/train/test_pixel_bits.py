#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The determinism contract with convolutional nets on pixels, short runs: ranks, workers, schedulers,
windows, parts, slices of the optimizer and executors end in one param_hash, in f32 and bf16, also with
microbatches and with lags. On the built-in Pong, and on Atari's where its plug-in is built."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, call, check, train  # noqa: E402
from ways import check_ways  # noqa: E402

PONG = dict(config=os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml"), strategy="{}",
            world__shards=2, max_train_iter=24, env__stop_value="1e9", env__collector_env_num=2,
            env__evaluator_env_num=2, env__n_evaluator_episode=2, runtime__precision="f32",
            policy__model__encoder_hidden_size_list="[16,32,32,64]", policy__learn__batch_size=16,
            policy__learn__update_per_collect=4, policy__learn__target_update_freq=10,
            policy__collect__n_sample=32, policy__other__replay_buffer__replay_buffer_size=200,
            policy__eval__evaluator__eval_freq=12, policy__other__eps__decay=200)
ATARI = dict(PONG, env__type="atari", env__env_id="PongNoFrameskip-v4", max_train_iter=12,
             policy__eval__evaluator__eval_freq=1000000)

# Ways to compute the same.
WAYS = [
    dict(ranks=2),
    dict(ranks=2, runtime__workers=2, runtime__scheduler="prio", strategy__bucket_mb=0.1),
    dict(runtime__workers=2, runtime__scheduler="eager", strategy__bucket_mb=0.05,
         strategy__shard_optimizer_above_mb=0),
    dict(runtime__workers=1, strategy__shard_optimizer_above_mb=1000),
    dict(ranks=2, strategy__shard_optimizer_above_mb=0, strategy__bucket_mb=0.03, runtime__max_inflight_iterations=4),
    dict(runtime__workers=2, runtime__scheduler="modular-prio", strategy__batch_buffers=3),
    dict(runtime__executor="sequential"),
    dict(ranks=2, runtime__executor="sequential", strategy__shard_optimizer_above_mb=0),
]


def check_plan():
    """That what follows tests steps with subtasks and slices at all."""
    plan = call("graph", PONG["config"], "--strategy", "bucketed", "--ranks", "2", "--set",
                "policy.learn.microbatch=16", "--set", "world.shards=2", "--set",
                "policy.model.encoder_hidden_size_list=[32,64,64,256]").stdout
    check("in slices with mean(grad)" in plan and "4 items x" in plan, f"the plan:\n{plan}")


def main():
    check_plan()
    with Scratch() as scratch:
        hashes = [
            check_ways(scratch, "f32", PONG, WAYS),
            check_ways(scratch, "bf16", dict(PONG, runtime__precision="bf16"), WAYS[1:5]),
            check_ways(scratch, "microbatches", dict(PONG, policy__learn__microbatch=4),
                       [WAYS[1], WAYS[2], WAYS[4], WAYS[6]]),
            check_ways(scratch, "lags", dict(PONG, strategy__policy_lag=1, strategy__eval_lag=1),
                       [WAYS[0], WAYS[2], WAYS[6]]),
        ]
        check(len(set(hashes)) == len(hashes), f"precision, microbatches or lags changed nothing: {hashes}")
        if os.path.exists(os.path.join(os.path.dirname(RUNNER), "plugins/heddle_env_atari.so")):
            check_ways(scratch, "atari", ATARI, [WAYS[0], WAYS[2], WAYS[6]])
        else:
            print("atari: not run, scripts/atari builds its plug-in")


main()
