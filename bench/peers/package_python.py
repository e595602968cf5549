# SPDX-License-Identifier: Apache-2.0
"""A worker: {what: act, name, rows} -> microseconds of a call, {what: step, name, envs} -> environment steps per second
of CPU time. Its argument is a run directory of CartPole with DQN."""

import functools
import sys
import time

import gymnasium
import heddle
import numpy as np
import torch
from torch import nn

from worker import serve

SECONDS = 1.0


class Net(nn.Module):
    """DI-engine's net of CartPole: an encoder and dueling heads."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64),
                                     nn.ReLU())
        self.a = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.v = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        x = self.encoder(x)
        a = self.a(x)
        return a - a.mean(1, keepdim=True) + self.v(x)


@functools.cache
def actor(name):
    if name == "Heddle":
        return heddle.load(sys.argv[1]).act
    net = Net().eval()
    if name == "PyTorch, frozen":
        net = torch.jit.freeze(torch.jit.trace(net, torch.zeros(1, 4)))

    def act(obs):
        with torch.inference_mode():
            return net(torch.from_numpy(obs)).argmax(1).numpy()

    return act


@functools.cache
def environments(name, n):
    if name == "Heddle":
        envs = heddle.make_vec("cartpole", n)
    elif name == "SyncVectorEnv":
        envs = gymnasium.make_vec("CartPole-v1", n, vectorization_mode="sync")
    else:
        envs = gymnasium.make_vec("CartPole-v1", n, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    return envs


def time_calls(function, arguments):
    """Seconds of CPU time of a call."""
    calls, begin = 0, time.process_time()
    while time.process_time() < begin + SECONDS:
        for argument in arguments:
            function(argument)
        calls += len(arguments)
    return (time.process_time() - begin) / calls


def measure(request):
    draw = np.random.default_rng(0)
    if request["what"] == "act":
        obs = draw.normal(size=(64, request["rows"], 4)).astype(np.float32)
        act = actor(request["name"])
        for one in obs:  # to warm up
            act(one)
        return 1e6 * time_calls(act, list(obs))
    envs = environments(request["name"], request["envs"])
    actions = draw.integers(0, 2, (64, request["envs"]))
    return request["envs"] / time_calls(envs.step, list(actions))


torch.set_num_threads(1)
serve(measure)
