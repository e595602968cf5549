# SPDX-License-Identifier: Apache-2.0
"""PongNoFrameskip-v4 as a gym env of the kind that DI-engine was written for, on today's ale-py."""

import gym
import numpy as np
from ale_py import Action, ALEInterface, LoggerMode, roms


class Pong(gym.Env):
    """In gym's older interface."""

    def __init__(self):
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.seed(0)
        self.actions = self.ale.getMinimalActionSet()
        self.action_space = gym.spaces.Discrete(len(self.actions))
        self.observation_space = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)

    def seed(self, seed=None):
        self.ale.setInt("random_seed", seed)
        self.ale.loadROM(roms.get_rom_path("pong"))

    def reset(self):
        self.ale.reset_game()
        return self.ale.getScreenRGB()

    def step(self, action):
        reward = self.ale.act(self.actions[action])
        return self.ale.getScreenRGB(), float(reward), self.ale.game_over(), {}

    def get_action_meanings(self):
        return [Action(action).name for action in self.actions]


def register():
    gym.register("PongNoFrameskip-v4", entry_point=Pong, order_enforce=False, disable_env_checker=True)
