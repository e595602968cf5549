#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/updates.json: three updates of double DQN from prioritised replay and of advantage actor-critic,
written here with PyTorch's modules, distributions, autograd and Adam, in double. Priorities are a list. `number`
counts the transitions drawn as they were added, and parameters are those after the update.

Usage: regen_updates.py > tests/golden/updates.json
"""
import math

import torch
from torch.distributions import Categorical

from golden import describe, fill, philox, write

OBS, ACTIONS, WIDTHS, BATCH, UPDATES = 4, 3, (16, 8), 8, 3
RATE, EPS = 0.01, 1e-4
GAMMA, ALPHA, BETA, ANNEAL = 0.95, 0.6, 0.4, 4
CAPACITY, BLOCK = 20, 8  # transitions of the replay and of a collect
KEY = (21, 34)  # of the generator that draws
VALUE_WEIGHT, ENTROPY_WEIGHT = 0.5, 0.03


def draw(item, iteration):
    """A uniform number."""
    c0, c1, _, _ = philox((item, 0, iteration, 0), KEY)
    return ((c1 << 32) + c0 >> 11) / 2**53


def numbers_of(k, *shape):
    values = torch.tensor([2 * fill(k, j) - 1 for j in range(math.prod(shape))], dtype=torch.double)
    return values.float().double().reshape(shape)


class Net(torch.nn.Module):
    """An encoder and two heads, each of a hidden layer and an output: advantages and a value, or a value and logits."""

    def __init__(self, first, second, k):
        super().__init__()
        sizes = [(OBS, WIDTHS[0]), WIDTHS, (WIDTHS[1],) * 2, (WIDTHS[1], first), (WIDTHS[1],) * 2, (WIDTHS[1], second)]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*size).double() for size in sizes)
        with torch.no_grad():
            for t, tensor in enumerate(self.parameters()):
                fan_in = sizes[t // 2][0]
                values = [(2 * fill(k + t, j) - 1) / math.sqrt(fan_in) for j in range(tensor.numel())]
                tensor.copy_(torch.tensor(values, dtype=torch.double).float().double().reshape(tensor.shape))

    def heads(self, obs):
        x = self.layers[1](self.layers[0](obs).relu()).relu()
        return [self.layers[i + 1](self.layers[i](x).relu()) for i in (2, 4)]

    def q(self, obs):
        advantage, value = self.heads(obs)
        return value + advantage - advantage.mean(1, keepdim=True)


class Replay:
    """Transitions in slots, each with its number and priority; sums are made anew for each draw."""

    def __init__(self):
        self.slots, self.added, self.max, self.beta = [None] * CAPACITY, 0, 1.0, BETA

    def push(self):
        for _ in range(BLOCK):
            self.slots[self.added % CAPACITY] = [self.added, self.max]
            self.added += 1

    def sample(self, iteration):
        held = [(number, priority**ALPHA) for number, priority in filter(None, self.slots)]
        total = sum(weight for _, weight in held)
        chosen = []
        for i in range(BATCH):
            mass = (i + draw(i, iteration)) / BATCH * total
            for number, weight in held:
                mass -= weight
                if mass < 0:
                    break
            chosen.append((number, (len(held) * weight / total) ** -self.beta))
        largest = max((len(held) * weight / total) ** -self.beta for _, weight in held)
        self.beta = min(1, self.beta + (1 - BETA) / ANNEAL)
        return [number for number, _ in chosen], torch.tensor([w / largest for _, w in chosen], dtype=torch.double)

    def update(self, chosen, errors):
        for number, error in zip(chosen, errors.tolist()):
            self.slots[number % CAPACITY][1] = error + 1e-5
            self.max = max(self.max, error)


def describe_net(net):
    return [describe(tensor) for tensor in net.parameters()]


def step(adam, loss):
    adam.zero_grad()
    loss.backward()
    adam.step()


def learn_dqn():
    """Transition t leads from observation t to t + 1. A block is pushed before each update, two before the first."""
    net, target, replay = Net(ACTIONS, 1, 0), Net(ACTIONS, 1, 500), Replay()
    adam = torch.optim.Adam(net.parameters(), RATE, eps=EPS)
    obs = torch.stack([numbers_of(1000 + t, OBS) for t in range(BLOCK * (UPDATES + 1) + 1)])
    reward = numbers_of(2000, BLOCK * (UPDATES + 1))
    updates = []
    replay.push()
    for update in range(UPDATES):
        replay.push()
        chosen, importance = replay.sample(update)
        t = torch.tensor(chosen)
        q = net.q(obs[t])
        with torch.no_grad():
            best = net.q(obs[t + 1]).argmax(1, keepdim=True)
            bootstrap = target.q(obs[t + 1]).gather(1, best).squeeze(1)
            wanted = reward[t] + GAMMA * (1 - (t % 5 == 0).double()) * bootstrap
        errors = (q.gather(1, (t % ACTIONS).unsqueeze(1)).squeeze(1) - wanted) ** 2
        loss = (importance * errors).mean()
        step(adam, loss)
        replay.update(chosen, errors)
        updates.append({"number": chosen, "importance": importance.tolist(), "td2": errors.tolist(),
                        "total_loss": float(loss), "q_value": float(q.mean()), "params": describe_net(net)})
    return updates


def learn_a2c():
    """The batch is the same in all updates."""
    net = Net(1, ACTIONS, 100)
    adam = torch.optim.Adam(net.parameters(), RATE, eps=EPS)
    obs, advantage, returns = numbers_of(3000, BATCH, OBS), numbers_of(3001, BATCH), numbers_of(3002, BATCH)
    updates = []
    for _ in range(UPDATES):
        value, logits = net.heads(obs)
        policy = Categorical(logits=logits)
        losses = [-(policy.log_prob(torch.arange(BATCH) % ACTIONS) * advantage).mean(),
                  ((value.squeeze(1) - returns) ** 2).mean(), policy.entropy().mean()]
        loss = losses[0] + VALUE_WEIGHT * losses[1] - ENTROPY_WEIGHT * losses[2]
        step(adam, loss)
        updates.append({"total_loss": float(loss), "policy_loss": float(losses[0]), "value_loss": float(losses[1]),
                        "entropy_loss": float(losses[2]), "params": describe_net(net)})
    return updates


write("three updates of double DQN from prioritised replay and of advantage actor-critic, by PyTorch "
      f"{torch.__version__.split('+')[0]}", dqn=learn_dqn(), a2c=learn_a2c())
