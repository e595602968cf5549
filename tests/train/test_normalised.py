#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A policy that sees normalised observations is one with its scales: what `runner eval` and `runner
record` play with ckpt/best is what the evaluation that solved the task played, and the outputs that
`runner eval --obs` prints are the net's for scaled observations. With observations and rewards
normalised, ranks end in the same bits, on and off policy, and so do killed runs; evaluations are of
the environment's own rewards; graphs that would not normalise are refused."""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, result, sets, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

CONFIG = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
KEYS = dict(graph=os.path.join(ROOT, "configs/graphs/ppo_fast.yaml"), world__shards=2,
            policy__collect__normalize_obs="true", policy__collect__clip_obs=5)
BOTH = dict(policy__collect__normalize_obs="true", policy__collect__normalize_reward="true")
SAC = dict(config=os.path.join(ROOT, "configs/pendulum_sac.yaml"), env__stop_value="1e9", max_train_iter=120,
           policy__random_collect_size=64, policy__eval__evaluator__eval_freq=60, policy__collect__clip_reward=0.5, **BOTH)
DQN = dict(config=os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml"), env__stop_value="1e9", max_train_iter=60,
           policy__nstep=3, policy__eval__evaluator__eval_freq=20, **BOTH)
A2C = dict(config=os.path.join(ROOT, "configs/cartpole_a2c_ddp.yaml"), env__stop_value="1e9", max_train_iter=40,
           policy__eval__evaluator__eval_freq=20, **BOTH)
WAYS = [dict(ranks=2, world__shards=4), dict(ranks=4, world__shards=4, runtime__scheduler="random"),
        dict(runtime__executor="sequential"), dict(ranks=2, runtime__workers=2, strategy__bucket_mb=0.05)]
REFUSED = {
    "cartpole_ppo_ddp": ({"graph": "graphs/ppo_nosync.yaml"}, "'obs_norm'"),
    "pixel_pong_dqn_ddp": ({}, "pictures"),
    "cartpole_dqn_ddp": ({"env.frame_stack": "2", "policy.model.obs_shape": "8"}, "env.frame_stack"),
}


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


def check_bits(scratch):
    for name, keys in (("sac", SAC), ("dqn", DQN), ("a2c", A2C)):
        wanted = check_ways(scratch, name, dict(keys, world__shards=4), WAYS)
        for key in BOTH:
            other = train(scratch(name + key), **dict(keys, world__shards=4, **{key: "false"}))
            check(other["param_hash"] != wanted, f"{name}: {key} has no effect")


def check_played(scratch):
    """The pendulum's returns are those of its own rewards, from a directory and from its weights alone."""
    run = result(scratch("sac"))
    check(all(-2000 < value < -50 for value in run["eval_value_raw"]), f"returns of another scale: {run}")
    for what in (scratch("sac"), scratch("sac/" + run["weights"])):
        said = call("eval", what).stdout.splitlines()[-1]
        returns = [float(word) for word in said.split()[1:]]
        check(abs(sum(returns) / len(returns) - run["best_value"]) < 1e-6 * abs(run["best_value"]),
              f"{what}: {said}, but {run['best_value']}")


def check_refusals(scratch):
    for name, (more, said) in REFUSED.items():
        more = {**more, "policy.collect.normalize_obs": "true"}
        keys = [part for key, value in more.items() for part in ("--set", f"{key}={value}")]
        done = call("run", os.path.join(ROOT, f"configs/{name}.yaml"), "--dir", scratch("refused"), *keys, expect=2)
        check(said in done.stderr and not os.path.exists(scratch("refused")), f"{name}: {done.stderr}")


def check_warning(scratch):
    """Behaviour cloning collects nothing; it says that the key has no effect."""
    said = call("run", os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml"), "--dir", scratch("bc"),
                *sets(policy__collect__data_path=scratch("data"), max_train_iter=8, **BOTH)).stderr
    check("policy.collect.normalize_obs is not used" in said, said)


def main():
    with Scratch() as scratch:
        check_bits(scratch)
        check_played(scratch)
        check_kills(scratch, "kills", SAC["config"], {k: v for k, v in SAC.items() if k != "config"} | {"world__shards": 4},
                    (1, 2), 2)
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
        check_refusals(scratch)
        check_warning(scratch)
        print(f"solved after {run['train_iter']} updates; returns {returns} in both programs")


main()
