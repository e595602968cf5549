# SPDX-License-Identifier: Apache-2.0
"""Wrappers of Gymnasium's environments that both CleanRL's scripts and Heddle train on (cleanrl.py)."""

import os
import tempfile

import gymnasium


class Record(gymnasium.Wrapper):
    """Writes a line for each episode that ends, to a file of its own in the folder $PEERS_EPISODES: the steps of this
    environment until then, and the sum of rewards."""

    def __init__(self, env):
        super().__init__(env)
        self.file = tempfile.NamedTemporaryFile("w", dir=os.environ["PEERS_EPISODES"], delete=False, buffering=1)
        self.steps, self.total = 0, 0.0

    def reset(self, **how):
        self.total = 0.0
        return self.env.reset(**how)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self.total += float(reward)
        if terminated or truncated:
            self.file.write(f"{self.steps} {self.total}\n")
        return obs, reward, terminated, truncated, info
