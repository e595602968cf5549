#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The determinism contract on the real program: 4 shards, stop switched off, 300 updates. Ranks,
schedulers, workers, windows, parts, slots and executors in a share of a pairwise covering set end in
one param_hash; a lag changes it, and is then as reproducible."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from events import events, only  # noqa: E402
from runner import Scratch, check, environment, result, train  # noqa: E402
from ways import covering_set, take_share  # noqa: E402

FIXED = dict(world__shards=4, env__stop_value="1e9", max_train_iter=300,
             policy__learn__microbatch=32)  # two microbatches a shard, so that steps have subtasks

FACTORS = {
    "ranks": [1, 2, 4],
    "scheduler": ["eager", "prio", "lws", "ws", "random", "modular-eager", "modular-prio",
                  "modular-ws", "dm", "dmda", "dmdas", "modular-heft"],
    "workers": [1, 2, 4],
    "max_inflight_iterations": [1, 2, 4],
    "bucket_mb": [25, 0.02],
    "shard_optimizer_above_mb": [1000, 0],
    "batch_buffers": [1, 3],
    "open_exchanges": [1, 2, 8],
    "executor": ["starpu", "sequential"],
    "performance_models": ["false", "true"],
}


def run(scratch, number, row):
    return train(scratch(f"run{number}"), ranks=row["ranks"], env=environment(STARPU_PERF_MODEL_DIR=scratch("models")),
                 runtime__performance_models=row["performance_models"], runtime__scheduler=row["scheduler"],
                 runtime__workers=row["workers"], runtime__max_inflight_iterations=row["max_inflight_iterations"],
                 runtime__executor=row["executor"], strategy__bucket_mb=row["bucket_mb"],
                 strategy__shard_optimizer_above_mb=row["shard_optimizer_above_mb"],
                 strategy__batch_buffers=row["batch_buffers"], runtime__open_exchanges=row["open_exchanges"], **FIXED)["param_hash"]


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def check_two_runs_of_one_command(scratch):
    for name in ("a", "b"):
        train(scratch(name), ranks=2, **FIXED)
    a, b = result(scratch("a")), result(scratch("b"))
    for key in set(a) - {"command", "start_time", "end_time", "finish_time", "wall_s"}:
        check(a[key] == b[key], f"result.json: {key} is {a[key]} and {b[key]}")
    for path in ("ckpt/iteration_300/policy.safetensors", "ckpt/best/policy.safetensors"):
        check(read_bytes(scratch("a/" + path)) == read_bytes(scratch("b/" + path)),
              f"{path} differs")
    logs = [events(only(scratch(f"{name}/log/serial"))) for name in "ab"]
    check(logs[0] == logs[1] and len(logs[0]) > 50, "the events differ, or there are few")


def main():
    with Scratch() as scratch:
        size = int(os.environ.get("HD_COVERING_RUNS", "100"))
        rows, left = covering_set(FACTORS, 7, size)
        reference = train(scratch("reference"), **FIXED)["param_hash"]
        rows = take_share(rows, "rows")
        for number, row in enumerate(rows):
            found = run(scratch, number, row)
            check(found == reference, f"{row}: param_hash {found}, not {reference}")
        print(f"{len(rows)} runs end in {reference}")
        check(size < 100 or left == 0, f"{left} pairs of settings are not covered")
        check_two_runs_of_one_command(scratch)
        bucketed = train(scratch("bucketed"), "--strategy", "bucketed", ranks=2,
                         **FIXED)["param_hash"]
        check(bucketed == reference, f"bucketed: {bucketed}, not {reference}")
        lagged = [train(scratch(f"lag{ranks}"), "--strategy", "pipelined", ranks=ranks,
                        **FIXED)["param_hash"] for ranks in (1, 2, 4)]
        check(len(set(lagged)) == 1, f"pipelined on 1, 2 and 4 ranks: {lagged}")
        check(lagged[0] != reference, "a lag changed nothing")
        aside = [train(scratch(f"aside{ranks}"), ranks=ranks, runtime__max_inflight_iterations=ranks,
                       strategy__eval_lag=2, **FIXED)["param_hash"] for ranks in (1, 2, 4)]
        check(set(aside) == {reference}, f"evaluation aside on 1, 2 and 4 ranks: {aside}")
        forced = train(scratch("forced"), env=environment(STARPU_SCHED="eager", STARPU_NCPU=2),
                       **FIXED)["param_hash"]
        check(forced == reference, "STARPU_SCHED and STARPU_NCPU changed the result")
        again = train(scratch("again"), config=scratch("reference/total_config.yaml"))
        check(again["param_hash"] == reference, "the effective config does not re-run as it is")


main()
