#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batch norm with synchronised statistics against PyTorch: from the same weights and data, two gloo processes and our
two shards come to the same gradients, weights, running statistics and outputs, over short batches too; PyTorch loads
our state dict strictly. SyncBatchNorm refuses CPUs, so torch_batch_norm.py spells out its definition in double, checked
there against BatchNorm1d on the batches of both ranks put together."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, sets, skip, train  # noqa: E402
from pytorch.torch_ranks import find_python, run_ranks  # noqa: E402

try:
    import numpy as np
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
OBS, HIDDEN, ACTIONS, BATCH = 4, [24, 40, 16], 2, 48
TRANSITIONS = 300  # of two shards: three batches of 48, and one of 6
FIXED = dict(config=CLONE, graph=os.path.join(ROOT, "configs/graphs/bc_norm.yaml"), world__shards=2,
             env__stop_value="1e9", policy__model__norm="sync_batch_norm",
             policy__model__encoder_hidden_size_list=HIDDEN, policy__learn__batch_size=BATCH,
             policy__learn__sampler__shuffle="false")


def record(scratch):
    """Observations and actions of a data set, in its order."""
    train(scratch("dqn"), max_train_iter=40, env__stop_value="1e9")
    call("record", CONFIG, "--weights", scratch("dqn/ckpt/iteration_40/policy.safetensors"), "--transitions",
         str(TRANSITIONS), "--epsilon", "0.3", "--out", scratch("demos"), "--quiet")
    data = load_file(os.path.join(scratch("demos"), *os.listdir(scratch("demos"))))
    return data["frames"][data["obs"]][:, 0], data["action"]


def learn(scratch, name, updates, rate, eps, ranks=2):
    train(scratch(name), ranks=ranks, **FIXED, max_train_iter=updates, policy__learn__learning_rate=rate,
          policy__learn__adam_eps=eps, policy__collect__data_path=scratch("demos"))
    return scratch(f"{name}/ckpt/iteration_{updates}/policy.safetensors")


def lists(weights):
    return {name: values.tolist() for name, values in weights.items()}


def first_weights(scratch):
    """What a run starts from: an update of no length changes only running statistics, which start as PyTorch's."""
    weights = load_file(learn(scratch, "first", 1, 0, 1))
    for name in weights:
        kind = name.rpartition(".")[2]
        if kind in ("running_mean", "running_var", "num_batches_tracked"):
            check(kind != "num_batches_tracked" or weights[name] == 1, "an update is not counted")
            weights[name] = np.full_like(weights[name], 1 if kind == "running_var" else 0)
    return weights


def off(found, wanted):
    """The largest difference in units of the largest number, or of one if that is larger."""
    wanted = np.asarray(wanted, np.float64)
    return np.abs(np.asarray(found, np.float64).reshape(wanted.shape) - wanted).max() / max(1, np.abs(wanted).max())


def worst(found, wanted):
    """The largest difference of any tensor, and its name."""
    check(set(found) == set(wanted), f"names: {set(found) ^ set(wanted)}")
    return max((off(found[name], wanted[name]), name) for name in wanted)


def compare(what, ours, double, single):
    """We may be as far from double precision as PyTorch in single precision is, twice; and float32 has seven digits,
    which weights of size one show little more of."""
    error, name = worst(ours, double)
    torch_error, _ = worst(single, double)
    check(error <= max(2 * torch_error, 3e-7), f"{what}: {name} differs by {error:.1e}, torch's own by {torch_error:.1e}")
    print(f"{what} differ from double precision by {error:.1e}, torch's single precision by {torch_error:.1e}")


def gradient_of(scratch, first, names):
    """The first step of Adam with rate 1 and epsilon 1 is g / (|g| + 1), so that it shows the gradient itself."""
    after = load_file(learn(scratch, "gradient", 1, 1, 1))
    moved = {name: first[name].astype(np.float64) - after[name] for name in names}
    return {name: step / (1 - np.abs(step)) for name, step in moved.items()}


def outputs_of(scratch, path, obs):
    save_file({"obs": obs}, scratch("obs.safetensors"))
    keys = {key: value for key, value in FIXED.items() if key != "config"}
    printed = call("eval", CLONE, "--weights", path, "--obs", scratch("obs.safetensors"), *sets(**keys)).stdout
    return [[float(word) for word in line.split()] for line in printed.splitlines()]


def main():
    python = find_python()
    if not python:
        skip("no Python with PyTorch; scripts/packages tests/interop/packages.txt installs Debian's")
    updates, rate, eps = 11, 0.01, 0.01  # a small epsilon would blow up the noise of biases before norms, which are 0
    with Scratch() as scratch:
        obs, action = record(scratch)
        first = first_weights(scratch)
        eval_obs = np.random.default_rng(3).uniform(-1, 1, (37, OBS)).astype(np.float32)
        task = dict(obs=OBS, hidden=HIDDEN, actions=ACTIONS, batch=BATCH, weights=lists(first), data_obs=obs.tolist(),
                    data_action=action.tolist(), eval_obs=eval_obs.tolist(), updates=updates, learning_rate=rate,
                    adam_eps=eps)
        answers = run_ranks(python, "torch_batch_norm.py", 2, task)
        sync, plain, single = (answers[0][name] for name in ("sync", "plain", "single"))
        check(answers[1]["sync"]["state"] == sync["state"], "torch's ranks do not agree")
        check(answers[0]["refused"], "this PyTorch's SyncBatchNorm takes CPU tensors: use it in torch_batch_norm.py")
        for what in ("gradient", "state"):
            error, name = worst(sync[what], plain[what])
            check(error < 1e-9, f"SyncBatchNorm as defined is not BatchNorm1d on all samples: {name} {error:.1e}")
        for name, values in sync["gradient"].items():  # those of biases before norms are 0
            check(np.abs(values).max() > 5e-3 or np.abs(values).max() < 1e-12, f"the gradient of {name} says nothing")

        gradient = gradient_of(scratch, first, sync["gradient"])
        compare("gradients", gradient, sync["gradient"], single["gradient"])
        path = learn(scratch, "run", updates, rate, eps)
        compare("weights and running statistics", load_file(path), sync["state"], single["state"])
        outputs = outputs_of(scratch, path, eval_obs)
        compare("outputs", {"": outputs}, {"": sync["outputs"]}, {"": single["outputs"]})
        check(off(first["head.Q.1.0.weight"], sync["state"]["head.Q.1.0.weight"]) > 0.01, "nothing was learned")


main()
