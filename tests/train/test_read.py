#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is read is compared: a flipped bit of weights or of a data set, and weights that are no numbers or of another
type, end in a message that names file and cause; each episode of `runner eval` has a seed of its own."""

import json
import math
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, sets, train  # noqa: E402

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")


def read(path):
    with open(path, "rb") as file:
        return bytearray(file.read())


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


def header_of(content):
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + length]), content[8 + length:]


def join(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def refused(command, path, *parts):
    said = call(*command, expect=2).stderr
    check(os.path.basename(path) in said and all(part in said for part in parts), f"{command}: {said}")


def check_weights(scratch, weights):
    good = read(weights)
    header, data = header_of(good)
    flipped = bytearray(good)
    flipped[-1000] ^= 4
    strange = bytearray(data)
    strange[100:104] = struct.pack("<f", math.nan)
    unsigned = {**header, "__metadata__": {"format": "pt"}}
    half = {"encoder.init.0.weight": {"dtype": "F16", "shape": [128, 4], "data_offsets": [0, 1024]}}
    bad = {
        "flipped": (flipped, ["is damaged", f"data_hash {header['__metadata__']['data_hash']}"]),
        "nan": (join(unsigned, strange), ["holds nan at [", "must be finite"]),
        "half": (join(half, bytes(1024)), ["valid safetensors file", "of F16: F32, I32, I64 and U8"]),
    }
    for name, (content, parts) in bad.items():
        path = write(scratch(f"{name}.safetensors"), content)
        refused(["eval", CONFIG, "--weights", path], path, *parts)
        refused(["record", CONFIG, "--weights", path, "--transitions", "10", "--out", scratch("never")], path, *parts)
    check(not os.path.exists(scratch("never")), "a data set was made with bad weights")
    names = sorted(name for name in header if name != "__metadata__")
    moved, at, parts = {"__metadata__": header["__metadata__"]}, 0, []
    for name in names:
        lo, hi = header[name]["data_offsets"]
        moved[name] = {**header[name], "data_offsets": [at, at + hi - lo]}
        parts.append(data[lo:hi])
        at += hi - lo
    expected = call("eval", CONFIG, "--weights", weights).stdout
    for name, content in {"unsigned": join(unsigned, data), "moved": join(moved, b"".join(parts))}.items():
        path = write(scratch(f"{name}.safetensors"), content)  # as other programs may write it
        check(call("eval", CONFIG, "--weights", path).stdout == expected, name)


def check_data_set(scratch, weights):
    data = scratch("data")
    call("record", CONFIG, "--weights", weights, "--transitions", "500", "--out", data)
    path = os.path.join(data, "transitions-00001-of-00001.safetensors")
    good = read(path)
    stated = header_of(good)[0]["__metadata__"]["hash"]
    bad = bytearray(good)
    bad[-3000] ^= 1
    write(path, bad)
    keys = sets(policy__collect__data_path=data, max_train_iter=10)
    refused(["run", CLONE, "--dir", scratch("cloned"), *keys], path, "is damaged",
            f"it states {stated}")
    check(not os.path.exists(scratch("cloned")), "a damaged data set was trained on")
    write(path, good)
    call("run", CLONE, "--dir", scratch("cloned"), *keys)


def check_seeds(weights):
    """Whatever number of envs plays them, and the first ones as always."""
    def play(*arguments):
        return json.loads(call("eval", CONFIG, "--weights", weights, "--json", *arguments).stdout)["episodes"]

    episodes = play("--episodes", "20", "--seed", "7")
    check([one["seed"] for one in episodes] == list(range(7, 27)), f"{episodes}")
    check(len({one["return"] for one in episodes}) > 5, f"the same episodes again: {episodes}")
    check(play("--episodes", "20", "--seed", "7", *sets(env__evaluator_env_num=3)) == episodes, "envs change episodes")
    check(play("--seed", "7") == episodes[:5], "the first five")
    text = call("eval", CONFIG, "--weights", weights, "--seed", "7").stdout.splitlines()
    check(text[-2] == "seeds 7 8 9 10 11", f"{text}")


def main():
    with Scratch() as scratch:
        train(scratch("run"), max_train_iter=440, env__stop_value="1e9")
        weights = scratch("run/ckpt/iteration_440/policy.safetensors")
        check_seeds(weights)
        check_weights(scratch, weights)
        check_data_set(scratch, weights)


main()
