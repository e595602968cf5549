#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights are played by the net that they were trained with, or refused: a deeper net's, another activation's, files
with a tensor too many or too few, and those of wrappers, whose prefix can be taken away."""

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, Scratch, call, check, train  # noqa: E402


def net(*layers):
    return f"policy.model={{obs_shape: 4, action_shape: 2, layers: [{', '.join(layers)}], heads: {{q: {{type: dense}}}}}}"


def rewrite(source, target, change, keep_metadata=False):
    """Writes the tensors of a file by the names and to the bytes that `change` makes of a map of name: (shape, bytes)."""
    with open(source, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    metadata = header.pop("__metadata__")
    tensors = change({name: (tensor["shape"], body[slice(*tensor["data_offsets"])]) for name, tensor in header.items()})
    out, at = {"__metadata__": metadata} if keep_metadata else {}, 0
    for name, (shape, data) in tensors.items():
        out[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(out).encode()
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def main():
    deep = net("{dense: 32}", "relu", "{dense: 32}", "relu", "{dense: 32}", "relu")
    with Scratch() as scratch:
        train(scratch("run"), "--set", deep, max_train_iter=40, env__stop_value="1e9")
        weights = scratch("run/ckpt/iteration_40/policy.safetensors")
        wanted = call("eval", CONFIG, "--weights", weights, "--set", deep).stdout

        def expect(file, model, *words):
            said = call("eval", CONFIG, "--weights", file, "--set", model, expect=2).stderr
            check(all(word in said for word in words), f"{words}: {said}")

        def make(name, change):
            rewrite(weights, scratch(name), change)
            return scratch(name)

        shallow = net("{dense: 32}", "relu", "{dense: 32}", "relu")
        expect(weights, shallow, "policy.model.layers", "trained with")
        expect(weights, deep.replace("relu", "tanh"), "policy.model.layers", "relu", "tanh")
        # Files that say nothing about their net are told by their tensors.
        bare = make("bare.safetensors", lambda tensors: tensors)
        check(call("eval", CONFIG, "--weights", bare, "--set", deep).stdout == wanted, "a bare file plays otherwise")
        expect(bare, shallow, "'layers.4.", "another net")
        expect(make("more.safetensors", lambda tensors: {**tensors, "foo.weight": ([1], b"\0\0\0\0")}), deep,
               "'foo.weight'", "another net")
        expect(make("less.safetensors", lambda tensors: dict(list(tensors.items())[1:])), deep, "'layers.0.weight'")
        for prefix, wrapper in (("module.", "DistributedDataParallel"), ("_orig_mod.", "torch.compile"),
                                ("model.", "Lightning")):
            file = make(f"{prefix}safetensors",
                        lambda tensors, prefix=prefix: {prefix + name: tensor for name, tensor in tensors.items()})
            expect(file, deep, f"'{prefix}layers.0.weight'", wrapper, f"--strip-prefix {prefix}")
            played = call("eval", CONFIG, "--weights", file, "--set", deep, "--strip-prefix", prefix).stdout
            check(played == wanted, f"{prefix}: {played}, not {wanted}")
        print("eight files of weights: played by their net, or refused")


main()
