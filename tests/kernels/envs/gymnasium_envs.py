# SPDX-License-Identifier: Apache-2.0
"""Small environments of Gymnasium for tests of the bridge, which fail where they are told to."""

import copy
import ctypes
import json
import os
import sys
import tempfile
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
    "number": spaces.Box(-1, 1, (), np.float64),
    "wholes": spaces.Box(-(2**40), 2**40, (2, 1, 3), np.int64),
    "flags": spaces.Box(0, 1, (3,), bool),
    "voxels": spaces.Box(0, 255, (2, 1, 2, 1, 3), np.uint8),
    "late_choice": spaces.Discrete(5, start=-2),
    "choices": spaces.MultiDiscrete([[2, 3], [1, 3]], start=[[0, -1], [4, 1]]),
    "bits": spaces.MultiBinary((2, 3)),
    "nested": spaces.Dict(z=spaces.Tuple((spaces.Discrete(3, start=1), spaces.Box(-1, 1, (2, 2), np.float64))),
                          a=spaces.Dict(image=spaces.Box(0, 255, (2, 3, 2), np.uint8), k=spaces.MultiBinary(2)),
                          m=spaces.MultiDiscrete([2, 3])),
    "words": spaces.Dict(direction=spaces.Discrete(4), mission=spaces.Text(9)),
    "many": spaces.Discrete(2000000),
}
ACTIONS = {
    "discrete": spaces.Discrete(4),
    "from_one": spaces.Discrete(4, start=1),
    "several": spaces.MultiDiscrete([3, 2]),
    "bits": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1, -2], np.float32), np.array([1, np.inf], np.float32)),
    "one_of_several": spaces.MultiDiscrete([4], start=[2]),
    "choices": spaces.Dict(b=spaces.MultiBinary(2), a=spaces.Tuple((spaces.Discrete(3, start=5), spaces.Discrete(2))),
                           c=spaces.MultiDiscrete([[3]])),
    "reals": spaces.Tuple((spaces.Box(-2, 2, (), np.float64), spaces.Dict(a=spaces.Box(0, 1, (1, 1))))),
    "mixed": spaces.Dict(turn=spaces.Discrete(2), thrust=spaces.Box(-1, 1, (1,))),
    "whole": spaces.Box(0, 5, (2,), np.int64),
    "long": spaces.Box(-1, 1, (65,)),
    "text": spaces.Text(3),
}


KEPT = []


def list_numbers(action):
    """The parts of an action, of a Dict or a Tuple as well."""
    if not isinstance(action, (dict, tuple)):
        return [action]
    return [number for part in (action.values() if isinstance(action, dict) else action) for number in list_numbers(part)]


class Walk(gymnasium.Env):
    """A sum of draws and actions. At step fail_at it fails as `failure` says."""

    metadata = {"render_modes": ["rgb_array"]}
    steps_of_all = 0

    def __init__(self, obs="vector", actions="discrete", failure="", fail_at=5, only="", length=1000, remembers=False,
                 resets=1000, unseeded=False, shared=False, short_seeds=False, render_mode=None):
        self.observation_space, self.action_space = copy.deepcopy(OBS[obs]), ACTIONS[actions]
        self.failure, self.fail_at, self.only, self.length = failure, fail_at, only, length
        self.remembers, self.render_mode, self.resets = remembers, render_mode, resets
        self.unseeded, self.shared, self.short_seeds = unseeded, shared, short_seeds
        self.sum = 0.0

    def show(self):
        kind, shape = self.observation_space, self.observation_space.shape
        if not isinstance(kind, spaces.Box):
            return kind.sample()
        if kind.dtype == np.uint8 and len(shape) < 4:
            return (np.arange(np.prod(shape)).reshape(shape) + self.steps).astype(np.uint8)
        if shape != (3,) or kind.dtype == bool:
            return kind.sample()
        return np.array([self.sum, self.steps, self.action], kind.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.short_seeds:
            np.random.seed(seed)
        self.observation_space.seed(seed)
        self.resets -= 1
        if self.resets < 0:
            raise ValueError("no walk is left")
        self.sum = self.np_random.uniform() + (self.sum if self.remembers else 0)
        self.steps, self.action = 0, 0
        return self.show(), {}

    def fail(self):
        if self.failure == "raise":
            raise ValueError("the walk fell over")
        if self.failure == "raise long":
            raise ValueError("the walk fell over\33]0;x\a" + " and over" * 60)
        if self.failure == "exit":
            os._exit(7)
        if self.failure == "hang":
            time.sleep(1000)

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is no action"
        self.steps += 1
        fails = self.steps == self.fail_at and self.failure and (not self.only or os.path.exists(self.only))
        if fails:
            self.fail()
        self.action = float(sum(np.sum(part) for part in list_numbers(action)))
        self.sum += self.action + self.np_random.uniform()
        if self.unseeded:
            self.sum += np.random.default_rng().uniform()
        if self.shared:
            Walk.steps_of_all += 1
            self.sum += Walk.steps_of_all % 2
        if self.failure == "leak":
            KEPT.append(np.ones(1 << 14))
        result = self.show(), self.sum, self.steps >= self.length, False, {}
        return WRONG[self.failure](*result) if fails and self.failure in WRONG else result

    def render(self):
        return np.full((4, 7, 3), self.steps, np.uint8)


# What a step must not return, by the name of the failure.
WRONG = {
    "one number": lambda obs, *rest: (np.zeros(1, np.float32), *rest),
    "complex": lambda obs, *rest: (obs + 1j, *rest),
    "nan": lambda obs, *rest: (obs * np.nan, *rest),
    "no reward": lambda obs, reward, *rest: (obs, None, *rest),
    "rewards": lambda obs, reward, *rest: (obs, np.zeros(2), *rest),
    "flag": lambda obs, reward, ended, *rest: (obs, reward, "no", *rest),
    "four": lambda obs, reward, ended, cut, info: (obs, reward, ended, info),
}


class Half(gymnasium.ObservationWrapper):
    """Halves what is seen, or divides it by another number."""

    def __init__(self, env, divisor=2):
        super().__init__(env)
        self.divisor = divisor

    def observation(self, observation):
        return (observation / self.divisor).astype(np.float32)


class Walkers:
    """A parallel env of PettingZoo's interface: walkers see their own sum, the steps and the mean of all. Walker 0 dies
    after `dies` steps; at step fail_at the env raises, where `only` is no file or there."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, agents=3, actions="discrete", length=1000, cut=False, dies=0, late=False, differ="", fail_at=0,
                 only="", remembers=False, render_mode=None):
        self.possible_agents = [f"walker_{i}" for i in range(agents)]
        self.actions, self.length, self.cut, self.dies, self.late = actions, length, cut, dies, late
        self.differ, self.fail_at, self.only = differ, fail_at, only
        self.remembers, self.render_mode, self.sums = remembers, render_mode, {}

    def observation_space(self, agent):
        odd = self.differ == "observations" and agent == "walker_1"
        return spaces.Box(-np.inf, np.inf, (4 if odd else 3,), np.float32)

    def action_space(self, agent):
        return ACTIONS["bits" if self.differ == "actions" and agent == "walker_1" else self.actions]

    def show(self, agents):
        mean = np.mean(list(self.sums.values()))
        return {name: np.array([self.sums[name], self.steps, mean], np.float32) for name in agents}

    def reset(self, seed=None, options=None):
        self.np_random = np.random.default_rng(seed)
        self.agents = self.possible_agents[1 if self.late else 0:]
        kept = self.sums if self.remembers else {}
        self.sums = {name: self.np_random.uniform() + kept.get(name, 0) for name in self.possible_agents}
        self.steps = 0
        return self.show(self.agents), {}

    def step(self, actions):
        assert list(actions) == self.agents, f"actions of {list(actions)}, not of {self.agents}"
        self.steps += 1
        if self.steps == self.fail_at and (not self.only or os.path.exists(self.only)):
            raise ValueError("the walkers fell over")
        for name, action in actions.items():
            assert self.action_space(name).contains(action), f"{action!r} is no action"
            self.sums[name] += float(np.sum(action)) + self.np_random.uniform()
        acted, over = self.agents, self.steps >= self.length
        dead = {name: over and not self.cut or name == "walker_0" and self.steps == self.dies for name in acted}
        cut = {name: over and self.cut for name in acted}
        self.agents = [name for name in acted if not dead[name] and not cut[name]]
        return self.show(acted), {name: self.sums[name] for name in acted}, dead, cut, {name: {} for name in acted}

    def render(self):
        return np.full((4, 7, 3), self.steps, np.uint8)

    def close(self):
        pass


class Turns(Walkers):
    """An env whose agents act one after the other."""

    def agent_iter(self):
        return iter(self.possible_agents)


class Louder:
    """A wrapper of parallel envs that multiplies rewards."""

    def __init__(self, env, factor=2):
        self.env, self.factor = env, factor

    def __getattr__(self, name):
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def step(self, actions):
        obs, rewards, *rest = self.env.step(actions)
        return obs, {name: self.factor * reward for name, reward in rewards.items()}, *rest


gymnasium.register("Walk-v0", entry_point=Walk, max_episode_steps=50)


class RunningReward(gymnasium.RewardWrapper):
    """Divides rewards by the largest one so far, in all episodes."""

    largest = 1

    def reward(self, reward):
        self.largest = max(self.largest, abs(reward))
        return reward / self.largest


class Recorded(gymnasium.Wrapper):
    """Writes what an environment shows and gives to a file of its own in `folder`."""

    def __init__(self, env, folder):
        super().__init__(env)
        self.file = tempfile.NamedTemporaryFile("w", dir=folder, delete=False, buffering=1)

    def write(self, obs, **more):
        print(json.dumps({"obs": [float(x) for x in obs], **more}), file=self.file)

    def reset(self, **arguments):
        obs, info = self.env.reset(**arguments)
        self.write(obs)
        return obs, info

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        self.write(obs, reward=float(reward))
        return obs, reward, *rest


class Slow(gymnasium.Wrapper):
    """Takes its time for each step."""

    def __init__(self, env, seconds):
        super().__init__(env)
        self.seconds = seconds

    def step(self, action):
        time.sleep(self.seconds)
        return self.env.step(action)


def find_blocks():
    """Address and bytes of what this process shares with the program that plays."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "memfd:heddle_gymnasium" in line:
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                yield begin, end - begin


def cut_blocks():
    """Makes the shared memory shorter, as whoever may open it can try."""
    for begin, size in find_blocks():
        try:
            os.truncate(f"/proc/self/map_files/{begin:x}-{begin + size:x}", 0)
        except OSError:
            pass


class Scribbling(gymnasium.Wrapper):
    """Writes over a part of the shared memory, as broken native code does: at step 3 of the episode from seed 1."""

    def __init__(self, env, part, value=255, pause=0):
        super().__init__(env)
        self.part, self.value, self.pause, self.steps = part, value, pause, None

    def reset(self, *, seed=None, options=None):
        self.steps = 0 if seed == 1 else None
        return self.env.reset(seed=seed, options=options)

    def scribble(self):
        from heddle_shared import Control, Header
        time.sleep(self.pause)
        blocks = list(find_blocks())
        assert len(blocks) == 1, "a worker has the memory of others"
        begin, size = blocks[0]
        header = Header.from_address(begin)
        at = header.control + Control.at.offset
        first, last = {"header": (0, ctypes.sizeof(Header)), "calls": (header.calls, header.control),
                       "control": (header.control, header.input), "at": (at, at + 4), "input": (header.input, header.result),
                       "result": (header.result, header.body), "all": (0, size)}[self.part]
        ctypes.memset(begin + first, self.value, last - first)

    def step(self, action):
        if self.steps is not None:
            self.steps += 1
            if self.steps == 3 and self.part == "size":
                cut_blocks()
            elif self.steps == 3:
                self.scribble()
        if self.steps == 3 and self.part == "at":
            raise ValueError("the walk fell over")
        return self.env.step(action)


def make_liar():
    """An env whose worker describes what there is not."""
    def lie():
        sys._getframe(1).f_locals["description"].dims = 77
        return b"code"
    sys.modules["__main__"].identify_code = lie
    return Walk()


class Boasting(Walk):
    """An env whose pickle seems larger than its place."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        sys.modules["__main__"].Worker.write_pickle = lambda worker, data: setattr(worker.control, "count", 1 << 40)


class Leaving(gymnasium.Wrapper):
    """Starts a child, and a grandchild in a session of its own whose parent ends at once; both sleep."""

    def __init__(self, env):
        super().__init__(env)
        for daemon in (False, True):
            if os.fork() == 0:
                if daemon:
                    os.setsid()
                    if os.fork() > 0:
                        os._exit(0)
                time.sleep(1000)
                os._exit(0)
