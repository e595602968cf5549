#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example plug-in, built as its head says, learns with the program; one and two ranks agree. Mistakes
in env.* name their place."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, environment, sets, skip, train  # noqa: E402

CELLS = 7
KEYS = {"env__type": "corridor", "env__options__cells": CELLS, "env__stop_value": 1,
        "policy__model__obs_shape": CELLS, "max_train_iter": 4000, "world__shards": 2}


def refused(environ, expected, **keys):
    done = call("graph", CONFIG, *sets(**{**KEYS, **keys}), env=environ, expect=2)
    check(expected in done.stderr, f"expected {expected} in:\n{done.stderr}")


def main():
    if not shutil.which("cc"):
        skip("there is no compiler `cc`")
    with Scratch() as scratch:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", ROOT, "-o",
                        scratch("heddle_env_corridor.so"),
                        os.path.join(ROOT, "kernels/envs/example/corridor.c")], check=True)
        environ = environment(HEDDLE_PLUGINS=scratch.path)
        runs = [train(scratch(f"run-{ranks}"), ranks=ranks, env=environ, **KEYS)
                for ranks in (1, 2)]
        print([(run["reason"], run["train_iter"], run["eval_value"]) for run in runs])
        check(all(run["reason"] == "solved" for run in runs), "the corridor was not learned")
        check(runs[0]["param_hash"] == runs[1]["param_hash"], "one and two ranks differ")
        refused(environ, "`cells`",
                env__options__cells=2)
        refused(environ, "obs_shape", policy__model__obs_shape=CELLS + 1)
        refused(environ, "--set:1:10: env.type: no environment 'corridr'", env__type="corridr")
        refused(environ, "'cells'", env__type="cartpole")


main()
