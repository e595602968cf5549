# SPDX-License-Identifier: Apache-2.0
"""DI-engine's convolutional nets (ConvEncoder with DuelingHead or with VAC's actor and critic) in plain
PyTorch, without what DI-engine spends around them. Pixels enter in [0, 1] or normalised."""

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
