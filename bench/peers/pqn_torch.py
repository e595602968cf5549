# SPDX-License-Identifier: Apache-2.0
"""usage: pqn_torch.py STEPS SETTING …      trains and prints how it gets on

Pong with PQN (Gallici et al. 2024, its Atari settings but for 24 envs and a short exploration) and the net of
configs/pong_ppo_fast.yaml, layer norm after each layer: does it learn Pong from fewer env steps than PPO does?
Settings are those of ppo_fast_torch.py, which this is a variant of."""

import sys

import torch
from torch import nn

import net
import ppo_fast_torch
from ppo_fast_torch import ENVS, GAMMA, Fast, Trainer, train

STEPS, EPOCHS, ROWS, LAMBDA, RATE, CLIP = 32, 2, 128, 0.65, 2.5e-4, 10
EXPLORE, LEAST = 40000, 0.01  # env steps until the least share of random actions


class Channels(nn.GroupNorm):
    """Layer norm of images."""

    def __init__(self, channels):
        super().__init__(1, channels)


class QNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        a, b, c, last = hidden
        self.layers = nn.Sequential(
            nn.Conv2d(4, a, 8, 4), Channels(a), nn.ReLU(), nn.Conv2d(a, b, 4, 2), Channels(b), nn.ReLU(),
            nn.Conv2d(b, c, 3, 1), Channels(c), nn.ReLU(), nn.Flatten(), nn.Linear(c * 7 * 7, last),
            nn.LayerNorm(last), nn.ReLU(), nn.Linear(last, net.ACTIONS))

    def forward(self, x):
        return self.layers(x)


class QLearner(Fast):
    def __init__(self, options):
        super().__init__(options)
        self.online = self.trained = QNet(net.PPO["ppo_fast"]).to(memory_format=self.layout)
        self.weights = list(self.online.parameters())
        self.adam = torch.optim.RAdam(self.weights, lr=RATE)
        self.clip, self.random = CLIP, 1

    def compute_look(self, frames):
        """What enters, log probabilities of a policy that is greedy but for a random share, values."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            x = self.scale(frames)
            q = self.online(x).float()
        p = torch.full_like(q, self.random / net.ACTIONS)
        p.scatter_add_(1, q.argmax(1, keepdim=True), torch.full((len(q), 1), 1.0 - self.random))
        return x, p.log(), q.amax(1)

    def compute_loss(self, obs, action, wanted):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            q = self.trained(self.scale(obs)).float()
        return 0.5 * (q.gather(1, action[:, None])[:, 0] - wanted).square().mean()


class Pqn(Trainer):
    steps = 0

    def returns(self):
        """Of Q(lambda), backwards."""
        wanted, after = torch.empty_like(self.reward), self.value[STEPS]
        for t in reversed(range(STEPS)):
            after = LAMBDA * after + (1 - LAMBDA) * self.value[t + 1]
            wanted[t] = after = self.reward[t] + GAMMA * (1 - self.done[t]) * after
        return wanted.view(-1)

    def iterate(self):
        self.steps += STEPS * ENVS
        self.learner.random = max(LEAST, 1 - self.steps / EXPLORE)
        self.collect()
        columns = [self.action.view(-1), self.returns()]
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(self.obs)).split(ROWS):
                self.learner.update((self.pick(rows), *(column[rows] for column in columns)))
        self.learner.see(self.seen)
        return 0.0


def main():
    ppo_fast_torch.STEPS, ppo_fast_torch.Fast = STEPS, QLearner
    torch.set_flush_denormal(True)
    train(Pqn(sys.argv[2:], 0, 1, torch.get_num_threads()), int(sys.argv[1]))


main()
