# SPDX-License-Identifier: Apache-2.0
"""Small environments of Gymnasium for tests of the bridge, which fail where they are told to."""

import copy
import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces

OBS = {
    "vector": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "doubles": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "gray": spaces.Box(0, 255, (6, 5), np.uint8),
    "colours": spaces.Box(0, 255, (6, 5, 3), np.uint8),
    "matrix": spaces.Box(-1, 1, (2, 2), np.float32),
    "choice": spaces.Discrete(5),
    "dict": spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Discrete(2)),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))),
}
ACTIONS = {
    "discrete": spaces.Discrete(4),
    "from_one": spaces.Discrete(4, start=1),
    "several": spaces.MultiDiscrete([3, 2]),
    "bits": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1, -2], np.float32), np.array([1, np.inf], np.float32)),
    "long": spaces.Box(-1, 1, (65,)),
    "text": spaces.Text(3),
}


class Walk(gymnasium.Env):
    """A sum of draws and actions. At step fail_at it fails as `failure` says."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, obs="vector", actions="discrete", failure="", fail_at=5, only="", length=1000, remembers=False,
                 render_mode=None):
        self.observation_space, self.action_space = copy.deepcopy(OBS[obs]), ACTIONS[actions]
        self.failure, self.fail_at, self.only, self.length = failure, fail_at, only, length
        self.remembers, self.render_mode = remembers, render_mode
        self.sum = 0.0

    def show(self):
        kind, shape = self.observation_space, self.observation_space.shape
        if not isinstance(kind, spaces.Box):
            return kind.sample()
        if kind.dtype == np.uint8:
            return (np.arange(np.prod(shape)).reshape(shape) + self.steps).astype(np.uint8)
        return np.array([self.sum, self.steps, self.action], kind.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.sum = self.np_random.uniform() + (self.sum if self.remembers else 0)
        self.steps, self.action = 0, 0
        return self.show(), {}

    def fail(self):
        if self.failure == "raise":
            raise ValueError("the walk fell over")
        if self.failure == "exit":
            os._exit(7)
        if self.failure == "hang":
            time.sleep(1000)

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is no action"
        self.steps += 1
        if self.steps == self.fail_at and self.failure and (not self.only or os.path.exists(self.only)):
            self.fail()
        self.action = float(np.sum(action))
        self.sum += self.action + self.np_random.uniform()
        return self.show(), self.sum, self.steps >= self.length, False, {}

    def render(self):
        return np.full((4, 7, 3), self.steps, np.uint8)


class Half(gymnasium.ObservationWrapper):
    """Halves what is seen, or divides it by another number."""

    def __init__(self, env, divisor=2):
        super().__init__(env)
        self.divisor = divisor

    def observation(self, observation):
        return (observation / self.divisor).astype(np.float32)


gymnasium.register("Walk-v0", entry_point=Walk, max_episode_steps=50)
