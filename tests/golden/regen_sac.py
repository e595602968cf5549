#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/sac.json: three updates of soft actor-critic, written here with PyTorch's modules, distributions,
autograd and Adam, in double. Nets are as they are after the update.

Usage: regen_sac.py > tests/golden/sac.json
"""
import math

import torch
from torch.distributions import Normal

from golden import describe, fill, philox, write

OBS, DIMS, BATCH, UPDATES = 3, 2, 8, 3
WIDTHS = {"policy": (16, 12), "critic": (14, 18)}
GAMMA, THETA, EPS, ALPHA = 0.95, 0.1, 1e-4, 0.3
RATES = {"policy": 0.01, "critic": 0.02, "alpha": 0.05}
TARGET_STREAM, POLICY_STREAM = (21, 34), (55, 89)  # keys of generators
NETS = {"policy": 0, "critic1": 100, "critic2": 200, "target1": 300, "target2": 400}  # numbers of their fills


def normals(key, update):
    """Box and Muller's, of item r DIMS + d at iteration `update`."""
    rows = []
    for item in range(BATCH * DIMS):
        words = philox((item, 0, update, 0), key)
        radius = ((words[0] << 32) + words[1] + 1) / 2**64
        rows.append(math.sqrt(-2 * math.log(radius)) * math.cos(2 * math.pi * ((words[2] << 32) + words[3]) / 2**64))
    return torch.tensor(rows, dtype=torch.double).reshape(BATCH, DIMS)


def numbers_of(k, *shape):
    count = math.prod(shape)
    values = torch.tensor([2 * fill(k, j) - 1 for j in range(count)], dtype=torch.double)
    return values.float().double().reshape(shape)


def make_net(name):
    kind = "policy" if name == "policy" else "critic"
    first, second = WIDTHS[kind]
    net = torch.nn.Sequential(
        torch.nn.Linear(OBS if kind == "policy" else OBS + DIMS, first), torch.nn.ReLU(),
        torch.nn.Linear(first, second), torch.nn.ReLU(),
        torch.nn.Linear(second, 2 * DIMS if kind == "policy" else 1)).double()
    fan_in = 1
    with torch.no_grad():
        for t, tensor in enumerate(net.parameters()):
            fan_in = tensor.shape[1] if tensor.dim() == 2 else fan_in
            values = [(2 * fill(NETS[name] + t, j) - 1) / math.sqrt(fan_in) for j in range(tensor.numel())]
            tensor.copy_(torch.tensor(values, dtype=torch.double).float().double().reshape(tensor.shape))
    return net


def act(policy, obs, noise):
    mean, log_std = policy(obs).chunk(2, 1)
    std = log_std.clamp(-20, 2).exp()
    x = mean + std * noise
    action = x.tanh()
    log_prob = Normal(mean, std).log_prob(x) - (1 - action**2).log()
    return action, log_prob.sum(1)


def main():
    nets = {name: make_net(name) for name in NETS}
    log_alpha = torch.tensor(math.log(ALPHA), dtype=torch.double).float().double().requires_grad_()
    obs, next_obs = numbers_of(1000, BATCH, OBS), numbers_of(1001, BATCH, OBS)
    action, reward = numbers_of(1002, BATCH, DIMS), numbers_of(1003, BATCH)
    done = torch.tensor([float(row % 3 == 0) for row in range(BATCH)], dtype=torch.double)
    adams = {name: torch.optim.Adam(nets[name].parameters(), RATES[name.rstrip("12")], eps=EPS)
             for name in ("policy", "critic1", "critic2")}
    adams["alpha"] = torch.optim.Adam([log_alpha], RATES["alpha"], eps=EPS)

    def value(name, of_obs, of_action):
        return nets[name](torch.cat([of_obs, of_action], 1)).squeeze(1)

    def step(name, loss):
        adams[name].zero_grad()
        loss.backward()
        adams[name].step()

    updates = []
    for update in range(UPDATES):
        with torch.no_grad():
            next_action, log_prob = act(nets["policy"], next_obs, normals(TARGET_STREAM, update))
            q = torch.min(value("target1", next_obs, next_action), value("target2", next_obs, next_action))
            target = reward + GAMMA * (1 - done) * (q - log_alpha.exp() * log_prob)
        losses = []
        for name in ("critic1", "critic2"):
            q = value(name, obs, action)
            losses.append((((q - target) ** 2).mean(), q.mean()))
            step(name, losses[-1][0])
        drawn, log_prob = act(nets["policy"], obs, normals(POLICY_STREAM, update))
        q = torch.min(value("critic1", obs, drawn), value("critic2", obs, drawn))
        policy_loss = (log_alpha.exp().detach() * log_prob - q).mean()
        step("policy", policy_loss)
        step("alpha", (-log_alpha.exp() * (log_prob.detach() - DIMS)).mean())
        with torch.no_grad():
            for name in ("1", "2"):
                for tensor, learned in zip(nets["target" + name].parameters(), nets["critic" + name].parameters()):
                    tensor.copy_(THETA * learned + (1 - THETA) * tensor)
        updates.append({"target": target.tolist(), "critic_loss": float(losses[0][0]), "q": float(losses[0][1]),
                        "policy_loss": float(policy_loss), "log_prob": float(log_prob.mean()),
                        "alpha": float(log_alpha.exp()), "params": {
                            name: [describe(tensor) for tensor in net.parameters()] for name, net in nets.items()}})
    write(f"three updates of soft actor-critic by PyTorch {torch.__version__.split('+')[0]}", updates=updates)


main()
