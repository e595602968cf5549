# SPDX-License-Identifier: Apache-2.0
"""usage: sac_torch.py WIDTH SETTING …     a worker: {updates} -> updates per second

Updates of soft actor-critic on the pendulum as CleanRL's sac_continuous_action.py makes them: two critics in one Adam,
every other update two of the policy and the temperature, targets at each. The replay is tensors, without an environment.
Settings:

  fused     one fused Adam each, and targets by one call for all tensors, which CleanRL has not
  compile   losses are compiled
"""

import copy
import sys
import time

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from worker import serve

OBS, ACTION, SCALE, BATCH, HELD = 3, 1, 2.0, 256, 20000
GAMMA, TAU, Q_RATE, POLICY_RATE = 0.99, 0.005, 1e-3, 3e-4
LOG_STD = (-5, 2)


def make_trunk(inputs, width):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


class Actor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk, self.mean, self.log_std = make_trunk(OBS, width), nn.Linear(width, ACTION), nn.Linear(width, ACTION)

    def forward(self, obs):
        """Actions and their log probabilities."""
        x = self.trunk(obs)
        low, high = LOG_STD
        std = (low + 0.5 * (high - low) * (torch.tanh(self.log_std(x)) + 1)).exp()
        normal = Normal(self.mean(x), std, validate_args=False)
        drawn = normal.rsample()
        squashed = torch.tanh(drawn)
        log_prob = normal.log_prob(drawn) - torch.log(SCALE * (1 - squashed.pow(2)) + 1e-6)
        return squashed * SCALE, log_prob.sum(1, keepdim=True)


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(make_trunk(OBS + ACTION, width), nn.Linear(width, 1))

    def forward(self, obs, action):
        return self.net(torch.cat([obs, action], 1))


class Learner:
    def __init__(self, width, settings):
        torch.manual_seed(0)
        self.fused = "fused" in settings
        self.actor, self.critics = Actor(width), nn.ModuleList([Critic(width), Critic(width)])
        self.targets = copy.deepcopy(self.critics)
        self.log_alpha, self.alpha = torch.zeros(1, requires_grad=True), 1.0
        how = {"fused": True} if self.fused else {}
        self.q_adam = torch.optim.Adam(self.critics.parameters(), lr=Q_RATE, **how)
        self.policy_adam = torch.optim.Adam(self.actor.parameters(), lr=POLICY_RATE, **how)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=Q_RATE, **how)
        self.replay = (torch.randn(HELD, OBS), torch.rand(HELD, ACTION) * 2 * SCALE - SCALE, -torch.rand(HELD, 1) * 10,
                       torch.randn(HELD, OBS), torch.zeros(HELD, 1))
        self.number = 0
        make = torch.compile if "compile" in settings else lambda function: function
        self.q_loss, self.policy_loss = make(self.compute_q_loss), make(self.compute_policy_loss)

    def compute_q_loss(self, obs, action, reward, next_obs, done, alpha):
        with torch.no_grad():
            next_action, log_prob = self.actor(next_obs)
            q = torch.min(*(target(next_obs, next_action) for target in self.targets)) - alpha * log_prob
            y = reward + (1 - done) * GAMMA * q
        return sum(functional.mse_loss(critic(obs, action), y) for critic in self.critics)

    def compute_policy_loss(self, obs, alpha):
        action, log_prob = self.actor(obs)
        return (alpha * log_prob - torch.min(*(critic(obs, action) for critic in self.critics))).mean()

    @staticmethod
    def step(adam, loss):
        adam.zero_grad()
        loss.backward()
        adam.step()

    def move_targets(self):
        learned, targets = list(self.critics.parameters()), list(self.targets.parameters())
        with torch.no_grad():
            if self.fused:
                torch._foreach_lerp_(targets, learned, TAU)
                return
            for target, new in zip(targets, learned):
                target.copy_(TAU * new + (1 - TAU) * target)

    def update(self):
        rows = torch.randint(0, HELD, (BATCH,))
        obs, action, reward, next_obs, done = (column[rows] for column in self.replay)
        alpha = torch.tensor(self.alpha)
        self.step(self.q_adam, self.q_loss(obs, action, reward, next_obs, done, alpha))
        self.number += 1
        for _ in range(2 if self.number % 2 == 0 else 0):
            self.step(self.policy_adam, self.policy_loss(obs, torch.tensor(self.alpha)))
            with torch.no_grad():
                _, log_prob = self.actor(obs)
            self.step(self.alpha_adam, (-self.log_alpha.exp() * (log_prob - ACTION)).mean())
            self.alpha = self.log_alpha.exp().item()
        self.move_targets()

    def measure(self, updates):
        begin = time.perf_counter()
        for _ in range(updates):
            self.update()
        return updates / (time.perf_counter() - begin)


def main():
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    learner = Learner(int(sys.argv[1]), sys.argv[2:])
    learner.measure(20)
    serve(lambda request: learner.measure(request["updates"]))


if __name__ == "__main__":
    main()
