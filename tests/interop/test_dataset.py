#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data sets as users read them, with safetensors and numpy: CartPole's transitions obey its physics, stacks of pixels
follow one another; and one that Python wrote again is learned from alike."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, sets, skip, train  # noqa: E402

try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
PIXELS = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
SMALL = dict(policy__model__encoder_hidden_size_list="[8,8,16]", env__stop_value="1e9")


def record(weights, out, transitions, *arguments, config=CONFIG):
    call("record", config, "--weights", weights, "--transitions", str(transitions), "--out", out, "--quiet",
         *arguments)
    return [os.path.join(out, name) for name in sorted(os.listdir(out))]


def step(obs, action):
    """gym's CartPole, in double from the recorded floats."""
    x, dx, theta, dtheta = obs.astype(np.float64).T
    force = np.where(action == 1, 10.0, -10.0)
    inner = (force + 0.05 * dtheta ** 2 * np.sin(theta)) / 1.1
    ddtheta = (9.8 * np.sin(theta) - np.cos(theta) * inner) / (0.5 * (4 / 3 - 0.1 * np.cos(theta) ** 2 / 1.1))
    ddx = inner - 0.05 * ddtheta * np.cos(theta) / 1.1
    return np.stack([x + 0.02 * dx, dx + 0.02 * ddx, theta + 0.02 * dtheta, dtheta + 0.02 * ddtheta], 1)


def check_order(data):
    """An env's transitions stand together, in order of time, episode by episode; each starts where the last ended."""
    n = len(data["action"])
    same = (data["env"][1:] == data["env"][:-1]) & (data["done"][:-1] == 0)
    new = (data["env"][1:] == data["env"][:-1]) & (data["done"][:-1] == 1)
    obs, next_obs = data["frames"][data["obs"]], data["frames"][data["next_obs"]]
    check((np.diff(data["env"]) >= 0).all(), "envs are mixed")
    check((obs[1:][same] == next_obs[:-1][same]).all(), "a transition does not start where the last one ended")
    check((data["episode"][1:][same] == data["episode"][:-1][same]).all(), "episodes are mixed")
    check((data["episode"][1:][new] == data["episode"][:-1][new] + 1).all(), "episodes are not counted")
    check(n > 10 and new.any(), f"{n} transitions, {new.sum()} ends")
    return obs, next_obs, new


def check_cartpole(scratch):
    train(scratch("dqn"), max_train_iter=100, env__stop_value="1e9")
    weights = scratch("dqn/ckpt/iteration_100/policy.safetensors")
    (path,) = record(weights, scratch("demos"), 3000, "--epsilon", "0.3", "--seed", "7")
    data = load_file(path)
    obs, next_obs, _ = check_order(data)
    check(obs.shape == (3000, 1, 4) and obs.dtype == np.float32, f"obs {obs.shape} {obs.dtype}")
    error = np.abs(step(obs[:, 0], data["action"]) - next_obs[:, 0]).max()
    check(error < 1e-6, f"next_obs is {error:.1e} from what the physics say")
    fell = (np.abs(next_obs[:, 0, 0]) > 2.4) | (np.abs(next_obs[:, 0, 2]) > 12 * 2 * np.pi / 360)
    check((data["done"] == (fell | (data["truncated"] == 1))).all(), "done is not where the pole fell")
    check((data["reward"] == 1).all() and set(np.unique(data["action"])) == {0, 1}, "rewards or actions")
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    with safe_open(weights, "np") as file:
        policy = file.metadata()["param_hash"]
    expected = {"format": "heddle.transitions", "version": "1", "env_type": "cartpole", "env_id": "",
                "frame_stack": "1", "actions": "2", "transitions": "3000", "seed": "7", "policy": policy, "first": "0"}
    check({key: metadata[key] for key in expected} == expected, f"metadata {metadata}")
    check(float(metadata["epsilon"]) == 0.3, "epsilon")
    return path


def check_written_by_python(scratch, path):
    """Another order of tensors, another header, the same data."""
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    os.mkdir(scratch("python"))
    save_file(load_file(path), scratch("python/" + os.path.basename(path)), metadata=metadata)
    keys = dict(config=CLONE, max_train_iter=60, env__stop_value="1e9")
    hashes = [train(scratch(f"clone-{name}"), policy__collect__data_path=scratch(name), **keys)["param_hash"]
              for name in ("demos", "python")]
    check(hashes[0] == hashes[1], f"a data set written by Python trains otherwise: {hashes}")


def check_pixels(scratch):
    updates = train(scratch("pong"), config=PIXELS, max_train_iter=1, policy__collect__n_sample=64,
                    **SMALL)["train_iter"]
    paths = record(scratch(f"pong/ckpt/iteration_{updates}/policy.safetensors"), scratch("frames"), 6000,
                   "--epsilon", "1", *sets(**SMALL, env__collector_env_num=2), config=PIXELS)
    check(len(paths) == 3, f"{len(paths)} files")
    last = None
    for path in paths:
        data = load_file(path)
        obs, next_obs, new = check_order(data)
        check(obs.shape[1:] == (4, 84, 84) and obs.dtype == np.uint8, f"obs {obs.shape} {obs.dtype}")
        check((next_obs[:, :3] == obs[:, 1:]).all(), "a stack does not move on by one frame")
        starts = obs[1:][new]
        check((starts == starts[:, :1]).all(), "an episode does not start with four equal frames")
        check(len(data["frames"]) < 1.05 * len(obs) + 16, f"{len(data['frames'])} frames of {len(obs)} transitions")
        first = [np.flatnonzero(data["env"] == env)[0] for env in range(2)]
        if last:
            check(all((obs[first[env]] == last[env]).all() for env in range(2)), "a file does not go on with the last")
        ends = [np.flatnonzero(data["env"] == env)[-1] for env in range(2)]
        last = [next_obs[end] for end in ends]
        if any(data["done"][end] for end in ends):
            last = None


def main():
    with Scratch() as scratch:
        path = check_cartpole(scratch)
        check_written_by_python(scratch, path)
        check_pixels(scratch)
        print("data sets hold what happened")


main()
