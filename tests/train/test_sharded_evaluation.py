#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluation spread over shards plays the episodes that rank 0 would play, whatever the number of
ranks, and keeps the policy that was judged best, also when results come late."""

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, train  # noqa: E402

FIXED = dict(world__shards=4, env__stop_value="1e9", max_train_iter=600, env__evaluator_env_num=5,
             env__n_evaluator_episode=8)
SPREAD = dict(graph=os.path.join(ROOT, "configs/graphs/dqn_sharded_evaluation.yaml"), **FIXED)


def best_hash(directory):
    """param_hash of ckpt/best, from the header of the safetensors file."""
    with open(os.path.join(directory, "ckpt/best/policy.safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))["__metadata__"]["param_hash"]


def returns(directory):
    """All returns that were logged, in order."""
    with open(os.path.join(directory, "log/evaluator/evaluator_logger.txt"),
              encoding="utf-8") as file:
        return [line.split("final reward:")[1].strip() for line in file if "final reward:" in line]


def run(scratch, name, **keys):
    result = train(scratch(name), **keys)
    return (result["param_hash"], result["eval_value"], result["eval_value_raw"],
            best_hash(scratch(name)), returns(scratch(name)))


def main():
    with Scratch() as scratch:
        alone = run(scratch, "alone", **FIXED)
        check(len(alone[4]) >= 8 * 10, f"only {len(alone[4])} episodes were logged")
        check(alone[3] != alone[0], "the last policy is the best: nothing to choose from")
        for ranks in (1, 2, 4):
            spread = run(scratch, f"spread{ranks}", ranks=ranks, **SPREAD)
            check(spread == alone, f"on {ranks} ranks: {spread}, but on rank 0 {alone}")
        sequential = run(scratch, "sequential", runtime__executor="sequential", **SPREAD)
        check(sequential == alone, f"sequential: {sequential}, not {alone}")
        for lag in (1, 2):
            late = [run(scratch, f"late{lag}_{ranks}", ranks=ranks, strategy__eval_lag=lag,
                        runtime__max_inflight_iterations=1 + ranks, **SPREAD) for ranks in (1, 2, 4)]
            check(late[0] == late[1] == late[2], f"eval_lag {lag}: {late}")
            check(late[0][0] == alone[0], "a late evaluation changed the training")
            seen = len(late[0][4])
            check(late[0][4] == alone[4][:seen] and seen >= len(alone[4]) - 8 * lag,
                  f"eval_lag {lag} saw {late[0][4]}")
            check(late[0][3] == alone[3], f"eval_lag {lag} kept {late[0][3]}, not {alone[3]}")


main()
