#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Running statistics against Stable-Baselines3's VecNormalize: of the observations that environments showed and the
rewards that they gave in a run, it makes the same scales and the same deviation of returns, from the same prior."""

import importlib.util
import json
import os
import re
import sys
import types
from unittest.mock import MagicMock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, skip, train  # noqa: E402

try:
    import numpy as np
    import safetensors.numpy
    package_path = importlib.util.find_spec("stable_baselines3").submodule_search_locations
except (ImportError, AttributeError) as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

PYTHON = os.path.join(ROOT, "build/plugins/gymnasium")
CLIP, UPDATES = 2.5, 100
RUN = dict(config=os.path.join(ROOT, "configs/gym_pendulum_sac.yaml"), max_train_iter=UPDATES,
           env__stop_value="1e9", world__shards=2, env__collector_env_num=3, policy__collect__n_sample=6, policy__random_collect_size=64,
           policy__learn__batch_size=16, policy__eval__at_limit="false", env__evaluator_env_num=1,
           env__n_evaluator_episode=1, env__max_evaluator_step=5, policy__model__layers="[{dense: 16}, relu]",
           policy__critic="{input: [obs, action], layers: [{dense: 16}, relu], heads: {value: {type: dense}}}",
           policy__collect__normalize_obs="true", policy__collect__normalize_reward="true",
           policy__collect__clip_obs=CLIP, policy__discount_factor=0.9,
           env__options__python=PYTHON, env__options__path=os.path.join(ROOT, "tests/kernels/envs"),
           env__options__max_episode_steps=23)


def import_vec_normalize():
    """Without what its package imports beside numpy."""
    package = types.ModuleType("stable_baselines3")
    package.__path__ = list(package_path)
    sys.modules["stable_baselines3"] = package
    for name in ("torch", "torch.nn", "torch.nn.functional", "torch.utils", "torch.utils.tensorboard",
                 "torch.utils.tensorboard.summary", "pandas", "matplotlib", "matplotlib.figure", "matplotlib.pyplot"):
        sys.modules[name] = MagicMock()
    import gymnasium
    from stable_baselines3.common.vec_env.dummy_vec_env import DummyVecEnv
    from stable_baselines3.common.vec_env.vec_normalize import VecNormalize
    return VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), gamma=0.9, clip_obs=CLIP)


def read_episodes(folder):
    """What environments recorded; an episode that was begun ahead of time and not played has no step."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        starts = [i for i, line in enumerate(lines) if "reward" not in line] + [len(lines)]
        for first, end in zip(starts, starts[1:]):
            if end - first > 1:
                yield lines[first:end]


def feed(norm, episodes):
    norm.obs_rms.update(np.array([line["obs"] for episode in episodes for line in episode], np.float32))
    for episode in episodes:
        norm.returns[:] = 0
        for line in episode[1:]:
            norm._update_reward(np.array([line["reward"]], np.float32))


def read_logged(directory):
    """The moments of discounted returns in the last table of the log."""
    with open(os.path.join(directory, "log/learner/learner_logger.txt"), encoding="utf-8") as file:
        rows = re.findall(r"reward_norm_(\w+) +\| +(\S+)", file.read())
    return {name: float(number) for name, number in rows[-3:]}


def main():
    if not os.path.exists(PYTHON):
        skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
    with Scratch() as scratch:
        os.mkdir(scratch("seen"))
        recorded = "{wrappers: [{'gymnasium_envs:Recorded': {folder: '%s'}}]}" % scratch("seen")
        run = train(scratch("run"), env__options__collector=recorded, **RUN)
        episodes = list(read_episodes(scratch("seen")))
        norm = import_vec_normalize()
        feed(norm, episodes)
        weights = safetensors.numpy.load_file(scratch(f"run/ckpt/iteration_{run['train_iter']}/policy.safetensors"))
        rows = np.array([[1, -1, 8], [-0.3, 0.2, -3], [0.5, 0.99, 0.1], [0, 0, -8]], np.float32)
        ours = np.clip(rows * weights["obs_norm.scale"] + weights["obs_norm.shift"], -CLIP, CLIP)
        check(np.abs(ours - norm.normalize_obs(rows)).max() < 1e-5, f"{ours}, but {norm.normalize_obs(rows)}")
        found = read_logged(scratch("run"))
        wanted = {"count": norm.ret_rms.count, "mean": norm.ret_rms.mean, "std": (norm.ret_rms.var + norm.epsilon)**0.5}
        check(all(abs(found[name] - wanted[name]) < 1e-5 * abs(wanted[name]) for name in wanted),
              f"returns have {found}, but {wanted}")
        check(np.abs(ours).max() == CLIP and len(episodes) > 6, f"{ours}, {len(episodes)} episodes")
        print(f"{len(episodes)} episodes: {found}")


main()
