# SPDX-License-Identifier: Apache-2.0
"""An environment of Gymnasium whose observation has parts: a camera's picture shows a bar on the left or on the right, and
a state says whether the bar's side is to be named or the other one. Whoever sees one of both alone guesses."""

import gymnasium
import numpy as np
from gymnasium import spaces

HEIGHT, WIDTH = 12, 10


class Bars(gymnasium.Env):
    """nested: the state stands in a Dict of its own, beside a Discrete."""

    def __init__(self, nested=False, length=16):
        state = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.observation_space = spaces.Dict(
            camera=spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8),
            state=spaces.Dict(numbers=state, phase=spaces.Discrete(4)) if nested else state)
        self.action_space = spaces.Discrete(2)
        self.nested, self.length = nested, length

    def show(self):
        self.right, self.other = (int(n) for n in self.np_random.integers(0, 2, 2))
        camera = self.np_random.integers(0, 64, (HEIGHT, WIDTH, 3)).astype(np.uint8)
        camera[:, WIDTH // 2 * self.right:][:, :WIDTH // 2] += 128
        state = np.array([2 * self.other - 1, self.np_random.normal(), self.steps / self.length])
        return {"camera": camera, "state": {"numbers": state, "phase": self.steps % 4} if self.nested else state}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.show(), {}

    def step(self, action):
        reward = float(action == self.right ^ self.other)
        self.steps += 1
        return self.show(), reward, self.steps == self.length, False, {}
