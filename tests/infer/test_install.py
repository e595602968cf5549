#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed library: it exports its own functions alone, needs no library of training, and a program that finds it
by pkg-config plays as `runner eval` does."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, train  # noqa: E402

FOREIGN = re.compile(r"starpu|libmpi|libcuda|libucp|hwloc|sodium|protobuf|simgrid")
EPISODES = 3


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def check_library(library):
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    with open(os.path.join(ROOT, "infer/infer.h"), encoding="utf-8") as file:
        declared = set(re.findall(r"^HEDDLE_API [^(]*?(heddle_\w+)\(", file.read(), re.M))
    ours = {name for name in exported if not name.startswith(("__asan", "__odr_asan", "__ubsan", "__tsan"))}
    check(ours == declared, f"exported but not declared, or declared but not exported: {ours ^ declared}")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))
    check(needed and not any(FOREIGN.search(name) for name in needed), f"the library needs {needed}")
    return any(name.startswith("libasan") for name in needed), any(name.startswith("libtsan") for name in needed)


def build(prefix, program):
    asan, tsan = check_library(os.path.join(prefix, "lib/libheddle-infer.so.0"))
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "heddle-infer", env=env).split()
    sanitizers = ["-fsanitize=address,undefined"] * asan + ["-fsanitize=thread"] * tsan
    run("cc", "-std=c17", "-Wall", "-Werror", "-pedantic", os.path.join(ROOT, "tests/infer/installed/play.c"), *flags,
        f"-Wl,-rpath,{prefix}/lib", *sanitizers, "-o", program)
    return run("pkg-config", "--modversion", "heddle-infer", env=env).strip()


def main():
    with Scratch() as scratch:
        prefix, program, directory = scratch("prefix"), scratch("play"), scratch("run")
        run("cmake", "--install", os.path.dirname(RUNNER), "--prefix", prefix)
        for name in ("bin/runner", "include/heddle/env.h", "share/doc/heddle/LICENSE", "share/heddle/configs/cartpole_qrdqn.yaml"):
            check(os.path.exists(os.path.join(prefix, name)), f"no {name} is installed")
        for shell, name in (("bash", "bash-completion/completions/runner"), ("zsh", "zsh/site-functions/_runner")):
            with open(os.path.join(prefix, "share", name), encoding="utf-8") as file:
                check(file.read() == call("completion", shell).stdout, f"{name} is of another program")
        version = build(prefix, program)
        check(call("--version").stdout.find(version) >= 0, f"the library says {version}, and runner another version")
        train(directory, world__shards=1, max_train_iter=80, env__stop_value="1e9", policy__eval__evaluator__eval_freq=40)
        told = json.loads(call("eval", CONFIG, "--weights", os.path.join(directory, "ckpt/best/policy.safetensors"),
                               "--episodes", str(EPISODES), "--json").stdout)
        for episode in told["episodes"]:
            played = float(run(program, directory, str(episode["seed"])))
            check(played == episode["return"], f"from seed {episode['seed']} the program plays {played}, and runner "
                                               f"{episode['return']}")
        refused = subprocess.run([program, scratch("nothing")], text=True, capture_output=True)
        check(refused.returncode == 1 and "nothing cannot be read" in refused.stderr, refused.stderr)


main()
