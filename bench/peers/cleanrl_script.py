# SPDX-License-Identifier: Apache-2.0
"""usage: cleanrl_script.py SCRIPT ARGUMENT …

Runs a script of the package `cleanrl` as it is. Of Gymnasium it meets what it was written for: ppo.py, ppo_atari.py and
sac_continuous_action.py the interface of gym 0.23, ppo_continuous_action.py that of Gymnasium 0.28, both on top of the
Gymnasium that is installed. Its environments record their episodes (cleanrl_record.py)."""

import importlib.metadata
import runpy
import sys
import types

import gymnasium
import numpy as np

from cleanrl_record import Record

MAKE = gymnasium.make


def make(env_id, **arguments):
    return Record(MAKE(env_id, **arguments))


class Vector(gymnasium.vector.SyncVectorEnv):
    """An environment begins its next episode in the step that ends one, as before Gymnasium 1.0. Infos, whose form has
    changed, stay empty: the script prints returns from them, no more."""

    def __init__(self, makers):
        super().__init__(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)

    def step(self, actions):
        *found, _ = super().step(actions)
        return *found, {}


class SeededFirst(gymnasium.Wrapper):
    """seed() before the first reset()."""

    first_seed = None

    def seed(self, seed):
        self.first_seed = seed

    def reset(self, **_):
        seed, self.first_seed = self.first_seed, None
        return self.env.reset(seed=seed)


class FrameStack(gymnasium.wrappers.FrameStackObservation):
    """Has the seed() of the wrapper within."""

    def seed(self, seed):
        self.env.get_wrapper_attr("seed")(seed)


class GymVector(gymnasium.vector.SyncVectorEnv):
    """That of gym 0.23: four results of a step, infos as a list, and the last observation of an episode in them."""

    def __init__(self, makers):
        super().__init__(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)

    def reset(self, **_):
        return super().reset()[0]

    def step(self, actions):
        obs, rewards, terminated, truncated, found = super().step(actions)
        done = np.logical_or(terminated, truncated)
        infos = [{"terminal_observation": found["final_obs"][i], "TimeLimit.truncated": bool(not terminated[i])}
                 if done[i] else {} for i in range(self.num_envs)]
        return obs, rewards, done, infos


def make_gym():
    """The part of gym 0.23 that the scripts use."""
    gym = types.ModuleType("gym")
    gym.make, gym.spaces, gym.Env = make, gymnasium.spaces, gymnasium.Env
    gym.vector = types.SimpleNamespace(SyncVectorEnv=GymVector)
    gym.wrappers = types.SimpleNamespace(
        RecordEpisodeStatistics=SeededFirst, ResizeObservation=gymnasium.wrappers.ResizeObservation,
        GrayScaleObservation=gymnasium.wrappers.GrayscaleObservation, FrameStack=FrameStack)
    return gym


def main():
    sys.modules["gym"] = make_gym()
    gymnasium.make, gymnasium.vector.SyncVectorEnv = make, Vector
    transform = gymnasium.wrappers.TransformObservation  # has wanted the space, too, since Gymnasium 1.0
    gymnasium.wrappers.TransformObservation = lambda env, change: transform(env, change, env.observation_space)
    path = importlib.metadata.distribution("cleanrl").locate_file(f"cleanrl/{sys.argv[1]}")
    sys.argv = [str(path), *sys.argv[2:]]
    runpy.run_path(str(path), run_name="__main__")


main()
