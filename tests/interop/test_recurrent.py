#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent nets against PyTorch: trained weights have the names of its modules and give its outputs for the steps of an
episode, and the numbers in tests/golden/ppo_recurrent.json, which tests/tasks/learn compares updates with, are still its."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, sets, skip, train  # noqa: E402
from pytorch.torch_ranks import find_python, run_ranks  # noqa: E402

try:
    import numpy as np
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

CONFIG = os.path.join(ROOT, "configs/cartpole_hidden_ppo_gru.yaml")
GOLDEN = os.path.join(ROOT, "tests/golden/ppo_recurrent.json")
REGEN = os.path.join(ROOT, "tests/golden/regen_recurrent.py")
NETS = {
    "gru": [{"dense": 24}, "tanh", {"gru": 40}],
    "lstm": [{"lstm": 33}],
    "both": [{"gru": 16}, {"lstm": 17}, "tanh", {"gru": 9}],
}
STEPS = 50


def off(found, wanted):
    return np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max()


def check_outputs(scratch, python, name, layers):
    keys = dict(policy__model__layers=json.dumps(layers))
    train(scratch(name), config=CONFIG, max_train_iter=32, env__stop_value="1e9", env__evaluator_env_num=1,
          env__n_evaluator_episode=1, policy__collect__n_sample=512, **keys)
    path = scratch(f"{name}/ckpt/iteration_32/policy.safetensors")
    weights = load_file(path)
    obs = np.random.default_rng(5).uniform(-1, 1, (STEPS, 2)).astype(np.float32)
    save_file({"obs": obs}, scratch("obs.safetensors"))
    printed = call("eval", CONFIG, "--weights", path, "--obs", scratch("obs.safetensors"), *sets(**keys)).stdout
    ours = [[float(word) for word in line.split()] for line in printed.splitlines()]
    task = dict(obs_shape=2, layers=layers, heads=["policy", "value"], obs=obs.tolist(),
                weights={key: values.tolist() for key, values in weights.items()})
    answer = run_ranks(python, "torch_recurrent.py", 1, task)[0]
    error, torch_error = off(ours, answer["double"]), off(answer["single"], answer["double"])
    check(error <= max(3 * torch_error, 3e-7), f"{name}: outputs differ by {error:.1e}, torch's own by {torch_error:.1e}")
    check(off(answer["double"][:-1], answer["double"][1:]) > 1e-2, f"{name}: the outputs hardly change")
    print(f"{name}: outputs differ from double precision by {error:.1e}, torch's single precision by {torch_error:.1e}")


def numbers(value):
    if isinstance(value, (list, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in numbers(part)]
    return [value] if isinstance(value, float) else []


def check_golden(python):
    """Two versions of PyTorch may add in another order."""
    with open(GOLDEN, encoding="utf-8") as file:
        golden = numbers(json.load(file))
    now = numbers(json.loads(subprocess.run([python, REGEN], capture_output=True, text=True, check=True).stdout))
    check(len(golden) == len(now) > 100, f"{len(golden)} numbers are recorded, PyTorch gives {len(now)}")
    error = off(now, golden)
    check(error < 1e-11, f"PyTorch's numbers differ by {error:.1e} from those of {GOLDEN}")
    print(f"{len(now)} golden numbers differ from PyTorch's by {error:.1e}")


def main():
    python = find_python()
    if not python:
        skip("no Python with PyTorch; scripts/packages tests/interop/packages.txt installs Debian's")
    check_golden(python)
    with Scratch() as scratch:
        for name, layers in NETS.items():
            check_outputs(scratch, python, name, layers)


main()
