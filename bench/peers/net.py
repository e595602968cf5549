# SPDX-License-Identifier: Apache-2.0
"""DI-engine's convolutional DQN (ConvEncoder, DuelingHead) and its update in plain PyTorch, without what
DI-engine spends around them."""

import torch
from torch import nn
from torch.nn import functional

HIDDEN = {"pong": [128, 128, 512], "nature": [32, 64, 64, 512]}
ACTIONS, NSTEP, GAMMA = 6, 3, 0.99


class Net(nn.Module):
    """[batch][4][84][84] in [0, 1] -> q [batch][6]. Sizes of three entries share the last one between the
    third convolution and the linear layer, as DI-engine reads them. The pong net is dueling."""

    def __init__(self, hidden):
        super().__init__()
        a, b, c, last = *hidden[:3], hidden[-1]
        self.convs = nn.Sequential(nn.Conv2d(4, a, 8, 4), nn.ReLU(), nn.Conv2d(a, b, 4, 2), nn.ReLU(),
                                   nn.Conv2d(b, c, 3, 1), nn.ReLU())
        self.mid = nn.Linear(c * 7 * 7, last)
        self.advantage = nn.Sequential(nn.Linear(last, last), nn.ReLU(), nn.Linear(last, ACTIONS))
        self.value = None
        if len(hidden) == 3:
            self.value = nn.Sequential(nn.Linear(last, last), nn.ReLU(), nn.Linear(last, 1))

    def forward(self, x):
        x = self.mid(self.convs(x).flatten(1))
        a = self.advantage(x)
        return a - a.mean(1, keepdim=True) + self.value(x) if self.value else a


def make_batch(size, seed=0):
    """(obs, next_obs, action, reward [NSTEP][size], done, value_gamma)"""
    random = torch.Generator().manual_seed(seed)
    obs = torch.randint(0, 256, (2, size, 4, 84, 84), generator=random, dtype=torch.uint8)
    action = torch.randint(0, ACTIONS, (size,), generator=random)
    reward = torch.randint(-1, 2, (NSTEP, size), generator=random).float()
    return obs[0], obs[1], action, reward, torch.zeros(size), torch.full((size,), GAMMA**NSTEP)


class Learner:
    """One DQN update as DI-engine defines it, on uint8 frames. `options`: channels_last, autocast (bf16
    arithmetic, f32 weights), master (bf16 weights beside f32 ones that Adam updates), pure (bf16 weights
    and optimizer), compile, and foreach instead of the fused Adam."""

    def __init__(self, net, options):
        torch.manual_seed(0)
        self.online, self.target = Net(HIDDEN[net]), Net(HIDDEN[net])
        self.target.load_state_dict(self.online.state_dict())
        self.kind = torch.bfloat16 if {"pure", "master"} & set(options) else torch.float32
        self.layout = torch.channels_last if "channels_last" in options else torch.contiguous_format
        for module in (self.online, self.target):
            module.to(dtype=self.kind, memory_format=self.layout)
        self.trained = self.online  # what the gradient goes through
        self.autocast = "autocast" in options
        how = {"foreach": True} if "foreach" in options else {"fused": True}
        self.weights = list(self.online.parameters())
        self.masters = [p.detach().float() for p in self.weights] if "master" in options else []
        self.adam = torch.optim.Adam(self.masters or self.weights, lr=1e-4, **how)
        self.loss = torch.compile(self.compute_loss) if "compile" in options else self.compute_loss

    def scale(self, frames):
        return frames.to(dtype=self.kind, memory_format=self.layout).mul_(1 / 255)

    def compute_loss(self, obs, next_obs, action, reward, done, value_gamma):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            q = self.trained(self.scale(obs))
            with torch.no_grad():
                next_obs = self.scale(next_obs)
                best = self.online(next_obs).argmax(1)
                bootstrap = self.target(next_obs).gather(1, best[:, None])[:, 0].float()
        discounts = torch.tensor([GAMMA**i for i in range(NSTEP)])
        wanted = discounts @ reward + value_gamma * bootstrap * (1 - done)
        return functional.mse_loss(q.float().gather(1, action[:, None])[:, 0], wanted)

    def update(self, batch, between=None):
        """`between` is called when the gradients stand, before they are used."""
        self.adam.zero_grad(set_to_none=True)
        self.loss(*batch).backward()
        if between:
            between(self.online)
        for master, weight in zip(self.masters, self.weights):
            master.grad, weight.grad = weight.grad.float(), None
        self.adam.step()
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)
