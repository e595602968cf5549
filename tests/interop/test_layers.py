#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nets that a list of layers describes against PyTorch: every layer, and IMPALA's residual net of the shipped run file,
have the gradients and outputs of the same modules there from the same weights and samples, and their names."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, sets, skip, train  # noqa: E402
from pytorch.torch_ranks import find_python, run_ranks  # noqa: E402

try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
PIXELS = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
BATCH = 24  # samples of each of two shards
PONG = dict(env__type="pixel_pong", env__frame_stack=4, env__options="{background: 87}",
            policy__model__obs_shape="[4,84,84]", policy__model__action_shape=6)

VECTOR = [{"dense": 24}, "tanh", "layer_norm", {"residual": [{"dense": {"out": 24}}, "gelu"]}, {"dense": 16}, "relu"]
NORMED = [{"dense": 20}, "batch_norm", "tanh", {"residual": [{"dense": 20}, "batch_norm", "gelu"]}]
EMBEDDED = [{"embedding": {"values": 6, "width": 5}}, "layer_norm", "flatten", {"dense": 16}, "gelu"]
IMAGE = [{"conv": {"channels": 6, "kernel": 5, "stride": 3, "padding": 2}}, "gelu",
         {"max_pool": {"kernel": 3, "stride": 2, "padding": 1}}, {"group_norm": 3}, "layer_norm",
         {"residual": [{"conv": {"channels": 6, "kernel": 3, "padding": 1}}, "tanh",
                       {"residual": ["relu", {"conv": {"channels": 6, "kernel": 1}}]}]},
         {"max_pool": {"kernel": 2}}, "flatten", "relu", {"dense": 32}, "tanh"]


# A Python environment whose observation has two parts.
BARS = dict(env__type="gymnasium", env__env_id="parts_env:Bars", policy__model__obs_shape="auto", policy__model__action_shape="auto",
            env__options=json.dumps(dict(python=os.path.join(ROOT, "build/plugins/gymnasium"), max_episode_steps=50,
                                         path=os.path.join(ROOT, "tests/kernels/envs"))))
CAMERA = [{"conv": {"channels": 5, "kernel": 3, "stride": 2}}, "relu", {"max_pool": {"kernel": 2}}, "flatten"]
STATE = [{"dense": 7}, "layer_norm", "tanh"]
JOINED = [{"dense": 12}, "gelu"]


def conv(channels):
    return {"conv": {"channels": channels, "kernel": 3, "padding": 1}}


def impala_stack(channels):
    block = {"residual": ["relu", conv(channels), "relu", conv(channels)]}
    return [conv(channels), {"max_pool": {"kernel": 3, "stride": 2, "padding": 1}}, block, block]


IMPALA = [*impala_stack(16), *impala_stack(32), *impala_stack(32), "relu", "flatten", {"dense": 256}, "relu"]


def check_shipped(scratch):
    """That the run file has these layers: with them in their place it learns the same."""
    config = os.path.join(ROOT, "configs/pixel_pong_ppo_impala.yaml")
    short = dict(config=config, max_train_iter=1, env__stop_value="1e9", env__collector_env_num=2,
                 env__evaluator_env_num=1, env__n_evaluator_episode=1, env__max_evaluator_step=4,
                 policy__collect__n_sample=4, policy__learn__batch_size=4, policy__learn__microbatch=2)
    hashes = [train(scratch("shipped"), **short)["param_hash"],
              train(scratch("here"), policy__model__layers=json.dumps(IMPALA), **short)["param_hash"]]
    check(hashes[0] == hashes[1], f"{config} has other layers: {hashes}")


def make_integers(scratch):
    """The data set of vectors with observations 0 ... 5, for an embedding."""
    [name] = os.listdir(scratch("vectors"))
    data = load_file(os.path.join(scratch("vectors"), name))
    with safe_open(os.path.join(scratch("vectors"), name), "np") as file:
        metadata = {key: value for key, value in file.metadata().items() if "hash" not in key}
    data["frames"] = np.random.default_rng(7).integers(0, 6, data["frames"].shape).astype(np.float32)
    os.mkdir(scratch("integers"))
    save_file(data, os.path.join(scratch("integers"), name), metadata)
    return data["frames"][data["obs"]][:, 0], data["action"]


def record(scratch, name, config, *arguments, **keys):
    """Observations [samples][...] and actions of a data set, in its order."""
    train(scratch(f"{name}_teacher"), config=config, env__stop_value="1e9", world__shards=2,
          policy__eval__evaluator__eval_freq=1000000, **keys)
    iterations = keys["max_train_iter"]
    call("record", config, "--weights", scratch(f"{name}_teacher/ckpt/iteration_{iterations}/policy.safetensors"),
         "--transitions", str(2 * BATCH), "--epsilon", "0.5", "--out", scratch(name), "--quiet", *arguments,
         *sets(**{key: value for key, value in keys.items() if key.startswith(("policy__model", "env__"))}))
    data = load_file(os.path.join(scratch(name), *os.listdir(scratch(name))))
    obs = data["frames"][data["obs"]]
    if name == "parts":
        camera = obs[:, 0, :360].reshape(-1, 3, 12, 10).astype(np.float32) / np.float32(255)
        return {"image": camera, "vector": np.ascontiguousarray(obs[:, 0, 360:]).view(np.float32)}, data["action"]
    obs = obs[:, 0] if name == "vectors" else obs.astype(np.float32) / np.float32(255)
    return obs, data["action"]


def learn(scratch, name, rate, eps, **keys):
    train(scratch(name), config=CLONE, world__shards=2, env__stop_value="1e9", max_train_iter=1,
          env__evaluator_env_num=1, env__n_evaluator_episode=1, env__max_evaluator_step=4,
          policy__model__heads="{policy: {type: categorical}}", policy__learn__batch_size=BATCH,
          policy__learn__sampler__shuffle="false", policy__learn__learning_rate=rate, policy__learn__adam_eps=eps, **keys)
    return load_file(scratch(f"{name}/ckpt/iteration_1/policy.safetensors"))


def start_of(weights):
    """What a run starts from, of an update of no length: running statistics start as PyTorch's."""
    for name in weights:
        kind = name.rpartition(".")[2]
        if kind in ("running_mean", "running_var", "num_batches_tracked"):
            weights[name] = np.full_like(weights[name], 1 if kind == "running_var" else 0)
    return weights


def off(found, wanted):
    """The largest difference in units of the largest number, or of one if that is larger."""
    wanted = np.asarray(wanted, np.float64)
    return np.abs(np.asarray(found, np.float64).reshape(wanted.shape) - wanted).max() / max(1, np.abs(wanted).max())


def compare(what, ours, double, single, least=3e-7):
    """We may be as far from double precision as PyTorch in single precision is, three times; and float32 has seven
    digits, which weights of size one show little more of (`least`)."""
    check(set(ours) == set(double), f"names: {set(ours) ^ set(double)}")
    error, name = max((off(ours[key], double[key]), key) for key in double)
    torch_error = max(off(single[key], double[key]) for key in double)
    check(error <= max(3 * torch_error, least), f"{what}: {name} differs by {error:.1e}, torch's own by {torch_error:.1e}")
    print(f"{what} differ from double precision by {error:.1e}, torch's single precision by {torch_error:.1e}")


def outputs_of(scratch, weights, obs, keys):
    save_file(weights, scratch("weights.safetensors"))
    save_file({"obs": obs}, scratch("obs.safetensors"))
    printed = call("eval", CLONE, "--weights", scratch("weights.safetensors"), "--obs", scratch("obs.safetensors"),
                   *sets(policy__model__heads="{policy: {type: categorical}}", **keys)).stdout
    return [[float(word) for word in line.split()] for line in printed.splitlines()]


def outputs_of_inputs(directory, obs):
    from heddle_package import heddle
    policy = heddle.load(os.path.join(directory, "total_config.yaml"),
                         os.path.join(directory, "ckpt/iteration_1/policy.safetensors"))
    return policy.forward({"camera": np.rint(obs["image"][:7] * 255).astype(np.uint8), "state": obs["vector"][:7]})


def check_net(scratch, python, name, layers, data, least=3e-7, inputs=None, **keys):
    """The first step of Adam with rate 1 and epsilon 1 is g / (|g| + 1), so that it shows the gradient itself."""
    folder, (obs, action) = data
    keys = dict(keys, policy__model__layers=json.dumps(layers), policy__collect__data_path=scratch(folder))
    parts = obs if isinstance(obs, dict) else {"": obs}
    shapes = {part: list(values.shape[1:]) for part, values in parts.items()}
    first = start_of(learn(scratch, f"{name}_first", 0, 1, **keys))
    after = learn(scratch, f"{name}_step", 1, 1, **keys)
    moved = {key: first[key].astype(np.float64) - after[key] for key in first
             if key.rpartition(".")[2] in ("weight", "bias")}
    gradient = {key: step / (1 - np.abs(step)) for key, step in moved.items()}
    lists = [{part: values[:n].tolist() for part, values in parts.items()} for n in (None, 7)]
    task = dict(obs_shape=shapes.get("", shapes), layers=layers, actions=int(first["heads.policy.bias"].size),
                weights={key: values.tolist() for key, values in first.items()}, action=action.tolist(),
                obs=lists[0].get("", lists[0]), eval_obs=lists[1].get("", lists[1]), inputs=inputs)
    answer = run_ranks(python, "torch_layers.py", 1, task)[0]
    flat = {key: np.ravel(values) for key, values in gradient.items()}
    compare(f"{name}: gradients", flat, answer["double"]["gradient"], answer["single"]["gradient"], least)
    outputs = (outputs_of_inputs(scratch(f"{name}_first"), obs) if inputs else
               outputs_of(scratch, first, np.ascontiguousarray(obs[:7]), keys))
    compare(f"{name}: outputs", {"": outputs}, {"": answer["double"]["outputs"]}, {"": answer["single"]["outputs"]})
    largest = max(np.abs(values).max() for values in answer["double"]["gradient"].values())
    check(largest > 1e-2, f"{name}: gradients of {largest:.1e} say nothing")


def main():
    python = find_python()
    if not python:
        skip("no Python with PyTorch; scripts/packages tests/interop/packages.txt installs Debian's")
    with Scratch() as scratch:
        check_shipped(scratch)
        vectors = "vectors", record(scratch, "vectors", CONFIG, max_train_iter=20)
        frames = "frames", record(scratch, "frames", PIXELS, max_train_iter=8, env__collector_env_num=2,
                                  policy__model__encoder_hidden_size_list="[16,16,16,16]",
                                  policy__other__replay_buffer__replay_buffer_size=500)
        check_net(scratch, python, "vector", VECTOR, vectors)
        check_net(scratch, python, "normed", NORMED, vectors,
                  graph=os.path.join(ROOT, "configs/graphs/bc_norm.yaml"))
        if os.path.exists(os.path.join(ROOT, "build/plugins/gymnasium")):
            inputs = dict(BARS, policy__model__inputs=json.dumps({"image": {"obs": "camera", "layers": CAMERA},
                                                                  "vector": {"obs": "state", "layers": STATE}}))
            parts = "parts", record(scratch, "parts", PPO, max_train_iter=4, policy__collect__n_sample=64,
                                    policy__learn__batch_size=16, policy__learn__epoch_per_collect=1,
                                    policy__model__layers=json.dumps(JOINED),
                                    policy__model__heads="{policy: {type: categorical}, value: {type: dense}}", **inputs)
            check_net(scratch, python, "inputs", JOINED, parts, inputs={"image": CAMERA, "vector": STATE}, **inputs)
        check_net(scratch, python, "embedding", EMBEDDED, ("integers", make_integers(scratch)))
        check_net(scratch, python, "image", IMAGE, frames, **PONG)
        # Of the signs of five million inputs of ReLUs a few are decided by rounding; each is a part of the gradient:
        # one behind layers.7.1 is 6e-6 of its bias's. Behind it no layer differs by more than 3e-8.
        check_net(scratch, python, "impala", IMPALA, frames, least=1e-5, **PONG, policy__learn__microbatch=8)


main()
