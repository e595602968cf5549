#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A policy that sees normalised observations is one with its scales: what `runner eval` and `runner
record` play with ckpt/best is what the evaluation that solved the task played, and the outputs that
`runner eval --obs` prints are the net's for scaled observations."""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, sets, train  # noqa: E402

CONFIG = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
KEYS = dict(graph=os.path.join(ROOT, "configs/graphs/ppo_fast.yaml"), world__shards=2)


def read_tensors(path):
    """Float tensors of a safetensors file."""
    import json
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    return {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                body[slice(*t["data_offsets"])])
            for name, t in header.items() if name != "__metadata__"}


def write_obs(path, rows):
    import json
    body = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
    header = json.dumps({"obs": {"dtype": "F32", "shape": [len(rows), len(rows[0])],
                                 "data_offsets": [0, len(body)]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + body)


def forward(tensors, row):
    """Logits and value in double, as DI-engine's VAC computes them."""
    def layer(name, x, relu):
        bias = tensors[name + ".bias"]
        weight = tensors[name + ".weight"]
        y = [bias[o] + sum(weight[o * len(x) + i] * x[i] for i in range(len(x)))
             for o in range(len(bias))]
        return [max(v, 0) for v in y] if relu else y
    x = [min(max(v * s + b, -5), 5) for v, s, b in
         zip(row, tensors["obs_norm.scale"], tensors["obs_norm.shift"])]
    for name in ("encoder.init", "encoder.main.0", "encoder.main.2"):
        x = layer(name, x, True)
    actor = layer("actor_head.Q.1.0", layer("actor_head.Q.0.0", x, True), False)
    return actor + layer("critic_head.last", layer("critic_head.main.0", x, True), False)


def main():
    with Scratch() as scratch:
        run = train(scratch("run"), config=CONFIG, max_train_iter=5000,
                    env__stop_value=60, policy__eval__evaluator__eval_freq=8, **KEYS)
        check(run["reason"] == "solved", f"CartPole is not solved: {run}")
        best = scratch("run/ckpt/best/policy.safetensors")
        played = call("eval", CONFIG, "--weights", best, *sets(**KEYS)).stdout.splitlines()
        returns = [float(word) for word in played[-1].split()[1:]]
        check(returns == run["eval_value_raw"], f"{returns}, but training saw {run['eval_value_raw']}")
        tensors = read_tensors(best)
        check(len(tensors["obs_norm.scale"]) == 4 and max(tensors["obs_norm.scale"]) > 2,
              f"the scales are {tensors['obs_norm.scale']}")
        rows = [[0.1, -0.5, 0.03, 0.7], [-2, 3, 0.2, -3], [0, 0, 0, 0]]
        write_obs(scratch("obs"), rows)
        printed = call("eval", CONFIG, "--weights", best, "--obs", scratch("obs")).stdout
        for line, row in zip(printed.splitlines(), rows):
            found, expected = [float(word) for word in line.split()], forward(tensors, row)
            check(len(found) == 3 and all(abs(a - b) < 1e-5 for a, b in zip(found, expected)),
                  f"outputs {found}, expected {expected}")
        call("record", CONFIG, "--weights", best, "--transitions", "2000", "--out", scratch("data"))
        print(f"solved after {run['train_iter']} updates; returns {returns} in both programs")


main()
