#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bit contract for convolutional nets on pixels: leaves and stages of the gradient by any number of
workers, parts of any size, exchanges in slices on any number of ranks, side by side with the plain
way of the sequential executor."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, train  # noqa: E402

CONFIG = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
FIXED = dict(world__shards=2, max_train_iter=24, policy__learn__batch_size=12,
             policy__learn__microbatch=4, policy__learn__target_update_freq=7,
             policy__model__encoder_hidden_size_list="[32,64,64]", policy__collect__n_sample=16,
             runtime__check_every=5)

RUNS = [  # ranks, workers, bucket_mb, slices_from_mb, executor
    (1, 1, 25, 1000, "sequential"),
    (1, 1, 25, 0, "starpu"),
    (1, 2, 0.05, 1000, "starpu"),
    (1, 2, 0.05, 0, "starpu"),
    (1, 4, 0.3, 0, "starpu"),
    (2, 1, 25, 1000, "starpu"),
    (2, 1, 25, 0, "starpu"),
    (2, 2, 0.05, 0, "starpu"),
    (2, 1, 0.3, 0, "sequential"),
]


def without_evaluation(scratch):
    """The config with a graph that only collects and learns: games of a fresh net can be long."""
    names = ["eval_envs", "best", "result", "verdict"]
    with open(os.path.join(ROOT, "configs/graphs/dqn.yaml"), encoding="utf-8") as file:
        graph = [line for line in file if not re.search(
            rf"^  ({'|'.join(names)}): |- (evaluate|save|broadcast): |reads: \[verdict\]", line)]
    with open(CONFIG, encoding="utf-8") as file:
        config = file.read().replace("graphs/dqn.yaml", "graph.yaml")
    os.symlink(os.path.join(ROOT, "configs/strategies"), scratch("strategies"))
    for name, text in (("graph.yaml", "".join(graph)), ("config.yaml", config)):
        with open(scratch(name), "w", encoding="utf-8") as file:
            file.write(text)
    return scratch("config.yaml")


def main():
    with Scratch() as scratch:
        config = without_evaluation(scratch)
        plan = call("graph", config, "--strategy", "bucketed", "--ranks", "2", "--set",
                    "policy.learn.microbatch=16", "--set", "world.shards=2").stdout
        check("in slices with mean(grad)" in plan and "4 items x" in plan, f"the plan:\n{plan}")
        for precision in ("f32", "bf16"):
            for strategy in ("serial", "pipelined"):
                hashes = {}
                runs = RUNS if strategy == "serial" else RUNS[::4]
                for ranks, workers, bucket, slices, executor in runs:
                    name = f"{precision}-{strategy}-{len(hashes)}"
                    outcome = train(scratch(name), "--strategy", strategy, ranks=ranks,
                                    config=config, runtime__precision=precision,
                                    runtime__workers=workers, runtime__executor=executor,
                                    strategy__bucket_mb=bucket, strategy__slices_from_mb=slices,
                                    **FIXED)
                    hashes[name, ranks, workers, bucket, slices, executor] = outcome["param_hash"]
                check(len(set(hashes.values())) == 1, f"{precision}: {hashes}")
                print(f"{precision}, {strategy}: {len(hashes)} runs end in {outcome['param_hash']}")


main()
