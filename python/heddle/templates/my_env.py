# SPDX-License-Identifier: Apache-2.0
"""An environment to begin from: a point that has to reach the middle of a line."""

import gymnasium
import numpy as np


class MyEnv(gymnasium.Env):
    """Observations are where the point is and how fast it moves; the action is one of three pushes."""

    def __init__(self, push=0.1):
        self.observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.push = push
        self.place = self.speed = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # all that is random comes from self.np_random
        self.place, self.speed = self.np_random.uniform(-1, 1), 0.0
        return self._observe(), {}

    def step(self, action):
        self.speed = 0.9 * self.speed + self.push * (int(action) - 1)
        self.place += self.speed
        reward = -abs(self.place)
        terminated = abs(self.place) > 3
        return self._observe(), reward, terminated, False, {}

    def _observe(self):
        return np.array([self.place, self.speed], np.float32)
