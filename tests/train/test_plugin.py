#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example plug-in, built as its head says, learns with the program; one and two ranks agree. Mistakes
in env.* name their place. Made to show its cells as two parts, it learns by a net of two inputs."""

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


def build(scratch, name, source):
    with open(scratch(f"{name}.c"), "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", ROOT, "-o", scratch(f"heddle_env_{name}.so"), scratch(f"{name}.c")],
                   check=True)


def check_parts(scratch, environ):
    """The bytes of floats that follow one another are those of two parts of floats."""
    with open(os.path.join(ROOT, "kernels/envs/example/corridor.c"), encoding="utf-8") as file:
        source = file.read()
    shape = "HD_ENV_F32, .dims = 1, .shape = {cells},"
    check(shape in source, "corridor.c has another description")
    parts = ("HD_ENV_U8, .dims = 1, .shape = {4 * cells + %d}, .n_parts = settings->parts ? 2 : 0, "
             '.part = {{"left", HD_ENV_F32, 1, {3}}, {"right", HD_ENV_F32, 1, {cells - 3}}},')
    for name, more in (("parts", 0), ("liar", 4)):
        build(scratch, name, source.replace(shape, parts % more))
    keys = {**KEYS, "env__type": "parts", "policy__model__obs_shape": "auto", "policy__model__heads": "{q: {type: dueling}}",
            "policy__model__inputs": "{a: {obs: right, layers: [{dense: 16}, relu]}, b: {obs: left}}"}
    check(train(scratch("parts"), env=environ, **keys)["reason"] == "solved", "the corridor of two parts was not learned")
    said = call("check-env", CONFIG, *sets(**keys), env=environ).stdout
    check("left: floats [3]" in said and f"right: floats [{CELLS - 3}]" in said, said)
    told = call("run", CONFIG, "--dir", scratch("lies"), *sets(**{**keys, "env__type": "liar"}), env=environ, expect=2).stderr
    check("env.type liar: its parts are not the bytes of its frames" in told, told)


def main():
    if not shutil.which("cc"):
        skip("there is no compiler `cc`")
    with Scratch() as scratch:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", ROOT, "-o",
                        scratch("heddle_env_corridor.so"),
                        os.path.join(ROOT, "kernels/envs/example/corridor.c")], check=True)
        environ = environment(HEDDLE_PLUGINS=scratch.path)
        check_parts(scratch, environ)
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
