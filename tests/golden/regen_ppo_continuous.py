#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/ppo_continuous.json: three updates of PPO with real actions, whose deviations are parameters, written
here with PyTorch's modules, distributions, autograd, clip and Adam, in double.

Usage: regen_ppo_continuous.py > tests/golden/ppo_continuous.json
"""
import math

import torch
from torch.distributions import Normal

from golden import describe, fill, write

OBS, DIMS, BATCH, UPDATES = 3, 2, 8, 3
HIDDEN, VALUE_HIDDEN = 12, 10
RATE, EPS, CLIP, NORM, VALUE_WEIGHT, ENTROPY_WEIGHT = 0.01, 1e-4, 0.2, 0.5, 0.5, 0.03
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def numbers_of(k, *shape):
    count = math.prod(shape)
    values = torch.tensor([2 * fill(k, j) - 1 for j in range(count)], dtype=torch.double)
    return values.float().double().reshape(shape)


class Net(torch.nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.trunk = torch.nn.Sequential(torch.nn.Linear(OBS, HIDDEN), activation())
        self.mean = torch.nn.Linear(HIDDEN, DIMS)
        self.log_std = torch.nn.Parameter(numbers_of(2000, DIMS))
        self.value = torch.nn.Sequential(torch.nn.Linear(HIDDEN, VALUE_HIDDEN), torch.nn.ReLU(),
                                         torch.nn.Linear(VALUE_HIDDEN, 1))
        self.double()
        fan_in = 1
        with torch.no_grad():
            for t, tensor in enumerate(self.tensors()):
                fan_in = tensor.shape[1] if tensor.dim() == 2 else fan_in
                values = [(2 * fill(t, j) - 1) / math.sqrt(fan_in) for j in range(tensor.numel())]
                if tensor is not self.log_std:
                    tensor.copy_(torch.tensor(values, dtype=torch.double).float().double().reshape(tensor.shape))

    def tensors(self):
        return [*self.trunk.parameters(), *self.mean.parameters(), self.log_std, *self.value.parameters()]

    def forward(self, obs):
        x = self.trunk(obs)
        return Normal(self.mean(x), self.log_std.exp()), self.value(x).squeeze(1)


def update(name, activation):
    net = Net(activation)
    adam = torch.optim.Adam(net.tensors(), RATE, eps=EPS)
    obs, action = numbers_of(1000, BATCH, OBS), numbers_of(1001, BATCH, DIMS)
    old = numbers_of(1002, BATCH, 2 * DIMS)
    before = Normal(old[:, :DIMS], old[:, DIMS:].exp())
    advantage, target = numbers_of(1003, BATCH), numbers_of(1004, BATCH)
    updates = []
    for _ in range(UPDATES):
        after, value = net(obs)
        ratio = (after.log_prob(action) - before.log_prob(action)).sum(1).exp()
        policy = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        value_loss = 0.5 * ((value - target) ** 2).mean()
        entropy = after.entropy().sum(1).mean()
        kl = torch.distributions.kl_divergence(before, after).sum(1).mean()
        clipfrac = ((ratio - 1).abs() > CLIP).double().mean()
        loss = policy + VALUE_WEIGHT * value_loss - ENTROPY_WEIGHT * entropy
        adam.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.tensors(), NORM)
        adam.step()
        values = {"total_loss": loss, "policy_loss": policy, "value_loss": value_loss, "entropy_loss": entropy, "kl": kl,
                  "clipfrac": clipfrac, "grad_norm": norm}
        updates.append({**{key: float(value) for key, value in values.items()},
                        "params": [describe(tensor) for tensor in net.tensors()]})
    return {"activation": name, "updates": updates}


def main():
    write(f"three updates of PPO with real actions by PyTorch {torch.__version__.split('+')[0]}",
          nets=[update(*item) for item in ACTIVATIONS.items()])


main()
