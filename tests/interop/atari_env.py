# SPDX-License-Identifier: Apache-2.0
"""The Atari plug-in from Python (kernels/envs/env.h by ctypes), and DI-engine's wrappers over ale-py and OpenCV,
written apart from ours."""

import cv2
import numpy as np
from ale_py import Action, ALEInterface, LoggerMode
from plugin import Group, open_plugin

FRAME = (84, 84)
MASK = (1 << 64) - 1


# -- Ours ------------------------------------------------------------------------------------------

class Ours(Group):
    """One env of the plug-in."""

    def __init__(self, plugin, env_id, evaluator):
        super().__init__(open_plugin(plugin), env_id, {}, evaluator)
        self.actions = self.spec.actions.n[0]

    def reset(self, seed):
        super().reset(seed)
        return self.obs[0]

    def step(self, action):
        super().step(np.array([action], np.int32))
        return self.obs[0], float(self.reward[0]), bool(self.done[0])

    def close(self):
        self.destroy()


def noops(seed):
    """How many no-ops our reset with this seed begins with: splitmix64 to 1 … 30."""
    z = (seed + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return 1 + (((z ^ z >> 31) >> 32) * 30 >> 32)


# -- Theirs ----------------------------------------------------------------------------------------

class Raw:
    """<Game>NoFrameskip-v4: single frames in RGB. Like gym's with DI-engine's seeding, it loads the ROM anew for
    every game."""

    def __init__(self, rom):
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.rom, self.ale = rom, ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", 0)
        self.reset()
        self.names = [Action(action).name for action in self.ale.getMinimalActionSet()]

    def reset(self):
        self.ale.loadROM(self.rom)
        self.ale.reset_game()
        return self.ale.getScreenRGB()

    def step(self, action):
        reward = self.ale.act(self.ale.getMinimalActionSet()[action])
        return self.ale.getScreenRGB(), reward, self.ale.game_over()

    def lives(self):
        return self.ale.lives()


class Wrapper:
    def __init__(self, env):
        self.env, self.names, self.lives = env, env.names, env.lives

    def reset(self):
        return self.env.reset()

    def step(self, action):
        return self.env.step(action)


class NoopReset(Wrapper):
    noops = None

    def reset(self):
        obs = self.env.reset()
        for _ in range(self.noops):
            obs, _, done = self.env.step(0)
            if done:
                obs = self.env.reset()
        return obs


class MaxAndSkip(Wrapper):
    def step(self, action):
        seen, total = [], 0.0
        for _ in range(4):
            obs, reward, done = self.env.step(action)
            seen.append(obs)
            total += reward
            if done:
                break
        return np.max(seen[-2:], axis=0), total, done


class EpisodicLife(Wrapper):
    had, real_done = 0, True

    def reset(self):
        obs = self.env.reset() if self.real_done else self.env.step(0)[0]
        self.had = self.lives()
        return obs

    def step(self, action):
        obs, reward, done = self.env.step(action)
        self.real_done = done
        lives = self.lives()
        if 0 < lives < self.had:
            done = True
        self.had = lives
        return obs, reward, done


class FireReset(Wrapper):
    def reset(self):
        self.env.reset()
        return self.env.step(1)[0]


class Warp(Wrapper):
    @staticmethod
    def warp(obs):
        return cv2.resize(cv2.cvtColor(obs, cv2.COLOR_RGB2GRAY), FRAME, interpolation=cv2.INTER_AREA)

    def reset(self):
        return self.warp(self.env.reset())

    def step(self, action):
        obs, reward, done = self.env.step(action)
        return self.warp(obs), reward, done


class ClipReward(Wrapper):
    def step(self, action):
        obs, reward, done = self.env.step(action)
        return obs, float(np.sign(reward)), done


class Theirs:
    """DI-engine's order of wrappers."""

    def __init__(self, rom, evaluator):
        self.noop = NoopReset(Raw(rom))
        env = MaxAndSkip(self.noop)
        if not evaluator:
            env = EpisodicLife(env)
        if "FIRE" in env.names:
            env = FireReset(env)
        env = Warp(env)
        self.env = env if evaluator else ClipReward(env)
        self.actions = len(env.names)

    def reset(self, seed):
        self.noop.noops = noops(seed)
        return self.env.reset()

    def step(self, action):
        return self.env.step(action)
