#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner record: the same command writes the same bytes, mistakes are told before anything is played, and a
recording that is interrupted leaves nothing."""

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, train  # noqa: E402

PIXELS = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")


def files(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def record(weights, out, *arguments, config=CONFIG, transitions=1000, expect=0):
    return call("record", config, "--weights", weights, "--transitions", str(transitions), "--out", out,
                *arguments, expect=expect)


def check_same_bytes(scratch, weights):
    done = record(weights, scratch("a"))
    for word in ("1000 of 1000 transitions", "mean return", "1 file in"):
        check(word in done.stderr and done.stdout == "", f"the summary does not tell {word}: {done.stderr}")
    check(record(weights, scratch("b"), "--quiet").stderr == "", "--quiet is not")
    first = files(scratch("a"))
    check(list(first) == ["transitions-00001-of-00001.safetensors"], f"files: {list(first)}")
    check(first == files(scratch("b")), "the same command wrote other bytes")
    others = [["--seed", "1"], ["--epsilon", "0.01"], ["--epsilon=1"], ["--transitions", "1001"],
              ["--set", "env.collector_env_num=3"]]
    for number, arguments in enumerate(others):
        record(weights, scratch(f"other{number}"), *arguments)
        check(files(scratch(f"other{number}")) != first, f"{arguments} changed nothing")


def check_many_files(scratch):
    """Frames of pixels go to several files, whose number is known before."""
    work = scratch("pong")
    updates = train(work, config=PIXELS, max_train_iter=1, policy__collect__n_sample=64,
          policy__model__encoder_hidden_size_list="[8,8,16]", env__stop_value="1e9")["train_iter"]
    weights = os.path.join(work, f"ckpt/iteration_{updates}/policy.safetensors")
    small = ["--set", "policy.model.encoder_hidden_size_list=[8,8,16]", "--epsilon", "0.5"]
    for name in ("c", "d"):
        record(weights, scratch(name), *small, config=PIXELS, transitions=3001)
    found = files(scratch("c"))
    check(list(found) == [f"transitions-0000{i}-of-00002.safetensors" for i in (1, 2)], f"files: {list(found)}")
    check(found == files(scratch("d")), "the same command wrote other frames")
    size = sum(map(len, found.values()))
    frame = 84 * 84
    check(3001 * frame < size < 3300 * frame, f"{size / frame:.0f} frames' bytes of 3001 transitions")


def check_mistakes(scratch, weights):
    os.mkdir(scratch("full"))
    with open(scratch("full/file"), "w", encoding="utf-8"):
        pass
    with open(weights, "rb") as file:
        half = file.read()[:1000]
    with open(scratch("half.safetensors"), "wb") as file:
        file.write(half)
    out = ["--out", scratch("never")]
    some = ["--transitions", "10"]
    with_weights = ["--weights", weights]
    cases = [
        (out + some, "--weights FILE"),
        (with_weights + some, "--out DIR"),
        (with_weights + out, "--transitions N"),
        (with_weights + out + ["--transitions", "0"], "[1, 1000000000]"),
        (with_weights + out + ["--transitions", "1.5"], "expected an integer"),
        (with_weights + out + some + ["--epsilon", "1.1"], "[0, 1]"),
        (with_weights + out + some + ["--epsilon", "nan"], "[0, 1]"),
        (with_weights + out + some + ["--transition", "1"], "did you mean '--transitions'?"),
        (["--weights", scratch("no.safetensors")] + out + some, "no.safetensors cannot be read"),
        (["--weights", scratch("half.safetensors")] + out + some, "half.safetensors"),
        (with_weights + out + some + ["--set", "policy.model.encoder_hidden_size_list=[8]"], "tensor"),
        (with_weights + out + some + ["--set", "env.type=pixel_pong"], "obs_shape"),
        (with_weights + some + ["--out", scratch("full")], "/full exists"),
    ]
    for arguments, expected in cases:
        done = call("record", CONFIG, *arguments, expect=2)
        check(expected in done.stderr, f"{arguments}: {done.stderr}")
    check(not os.path.exists(scratch("never")), "a refused recording left something")
    check(os.listdir(scratch("full")) == ["file"], "the directory was touched")
    check("--epsilon" in call("record", "--help").stdout, "help")
    print(f"{len(cases)} mistakes are told and leave nothing")


def check_interrupt(scratch, weights):
    before = set(os.listdir(scratch(".")))
    process = subprocess.Popen([RUNNER, "record", CONFIG, "--weights", weights, "--transitions", "100000000", "--out",
                                scratch("cut")], env=environment(), stderr=subprocess.PIPE, text=True)
    while not any(name.startswith("cut.") for name in os.listdir(scratch("."))):
        check(process.poll() is None, "the recording ended by itself")
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    check(process.returncode == 130, f"exit code {process.returncode} after SIGINT: {said}")
    check("nothing was written" in said, f"it says {said}")
    check(set(os.listdir(scratch("."))) == before, "an interrupted recording left something")


def main():
    with Scratch() as scratch:
        train(scratch("run"), max_train_iter=50, env__stop_value="1e9")
        weights = scratch("run/ckpt/iteration_50/policy.safetensors")
        check_same_bytes(scratch, weights)
        check_many_files(scratch)
        check_mistakes(scratch, weights)
        check_interrupt(scratch, weights)


main()
