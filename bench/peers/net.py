# SPDX-License-Identifier: Apache-2.0
"""DI-engine's convolutional nets (ConvEncoder with DuelingHead or with VAC's actor and critic) in plain
PyTorch, without what DI-engine spends around them. Pixels enter in [0, 1] or normalised. And the lists of
layers of bench/parts/nets.c."""

import torch
from torch import nn

ACTIONS = 6
DQN = {"pong": [128, 128, 512], "nature": [32, 64, 64, 512]}
PPO = {"ppo": [64, 64, 128], "ppo_fast": [16, 32, 32, 256]}


def encoder(hidden):
    """[batch][4][84][84] -> [batch][last]. Sizes of three entries share the last one between the third
    convolution and the linear layer, as DI-engine reads them."""
    a, b, c, last = *hidden[:3], hidden[-1]
    return nn.Sequential(nn.Conv2d(4, a, 8, 4), nn.ReLU(), nn.Conv2d(a, b, 4, 2), nn.ReLU(),
                         nn.Conv2d(b, c, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(c * 7 * 7, last))


def head(width, outputs):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))


class QNet(nn.Module):
    """-> q [batch][6]. The pong net is dueling."""

    def __init__(self, hidden):
        super().__init__()
        self.encoder, self.advantage = encoder(hidden), head(hidden[-1], ACTIONS)
        self.value = head(hidden[-1], 1) if len(hidden) == 3 else None

    def forward(self, x):
        x = self.encoder(x)
        a = self.advantage(x)
        return a - a.mean(1, keepdim=True) + self.value(x) if self.value else a


class ActorCritic(nn.Module):
    """-> logits [batch][6], values [batch]"""

    def __init__(self, hidden):
        super().__init__()
        self.encoder = encoder(hidden)
        self.critic, self.actor = head(hidden[-1], 1), head(hidden[-1], ACTIONS)

    def forward(self, x):
        x = self.encoder(x)
        return self.actor(x), self.critic(x)[:, 0]


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(), nn.Conv2d(channels, channels, 3, 1, 1),
                                  nn.ReLU(), nn.Conv2d(channels, channels, 3, 1, 1))

    def forward(self, x):
        return x + self.body(x)


def impala(channels=(4, 16, 32, 32)):
    """Espeholt et al. 2018, the larger net, without its LSTM"""
    blocks = [[nn.Conv2d(before, after, 3, 1, 1), nn.MaxPool2d(3, 2, 1), Residual(after), Residual(after)]
              for before, after in zip(channels, channels[1:])]
    return [*sum(blocks, []), nn.ReLU(), nn.Flatten(), nn.Linear(channels[-1] * 11 * 11, 256), nn.ReLU()]


def mlp(width, activation, norm=False):
    layers = []
    for before in (16, width):
        layers += [nn.Linear(before, width), *([nn.LayerNorm(width)] if norm else []), activation()]
    return layers


# name: (shape of an observation, outputs of the trunk, the trunk's layers)
LISTS = {"impala": ((4, 84, 84), 256, impala), "mlp_64": ((16,), 64, lambda: mlp(64, nn.Tanh)),
         "mlp_256": ((16,), 256, lambda: mlp(256, nn.ReLU)), "norm_256": ((16,), 256, lambda: mlp(256, nn.ReLU, True))}
RECURRENT = {"gru": (nn.GRU, nn.GRUCell), "lstm": (nn.LSTM, nn.LSTMCell)}
UNITS = 128


class Listed(nn.Module):
    """-> logits, values, and of recurrent nets the state, which it also takes; a cell takes one step."""

    def __init__(self, name, cell=False):
        super().__init__()
        if name in RECURRENT:
            self.trunk = RECURRENT[name][1](UNITS, UNITS) if cell else RECURRENT[name][0](UNITS, UNITS, batch_first=True)
        else:
            self.trunk = nn.Sequential(*LISTS[name][2]())
        width = UNITS if name in RECURRENT else LISTS[name][1]
        self.cell, self.critic, self.actor = cell, nn.Linear(width, 1), nn.Linear(width, ACTIONS)

    def forward(self, x, state=None):
        if state is None:
            y = self.trunk(x)
            return self.actor(y), self.critic(y)
        if self.cell:
            state = self.trunk(x, state)
            y = state if torch.is_tensor(state) else state[0]
        else:
            y, state = self.trunk(x, state)
        return self.actor(y), self.critic(y), state
