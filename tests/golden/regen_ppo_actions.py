#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/ppo_actions.json: PPO's loss of actions of several numbers, by PyTorch's distributions.

Usage: regen_ppo_actions.py > tests/golden/ppo_actions.json (with PyTorch, in double)

Actions are two real numbers (4 logits), or two choices of 2 and 3 (5 logits). Sums are over the rows, and dout is the
derivative of the loss. A squashed normal distribution gives the action of a noise, and its log probability.
"""
import torch
from torch.distributions import Categorical, Normal, TanhTransform, TransformedDistribution, kl_divergence

import golden

ROWS, CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT = 8, 0.2, 0.5, 0.03


def distribution(logits, gaussian):
    if gaussian:
        return [Normal(logits[:, i], logits[:, 2 + i].exp()) for i in range(2)]
    return [Categorical(logits=logits[:, :2]), Categorical(logits=logits[:, 2:])]


def numbers(tensor):
    return [float(x) for x in tensor.flatten()]


def compute_loss(gaussian):
    torch.manual_seed(3 + gaussian)
    logits = 4 if gaussian else 5
    float32 = lambda tensor: tensor.float().double()  # noqa: E731  # inputs are exact in single precision
    old = float32(torch.randn(ROWS, logits) * 0.7)
    out = float32(torch.cat([old + 0.2 * torch.randn(ROWS, logits), torch.randn(ROWS, 1)], 1)).requires_grad_()
    value_old, advantage, target = (float32(torch.randn(ROWS)) for _ in range(3))
    before, after = distribution(old, gaussian), distribution(out[:, :logits], gaussian)
    action = [float32(one.sample()) for one in before]
    log_p, log_old = (sum(one.log_prob(x) for one, x in zip(of, action)) for of in (after, before))
    entropy = sum(one.entropy() for one in after)
    kl = sum(kl_divergence(one, other) for one, other in zip(before, after))
    ratio = (log_p - log_old).exp()
    policy = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
    value = 0.5 * (out[:, logits] - target) ** 2
    (policy + VALUE_WEIGHT * value - ENTROPY_WEIGHT * entropy).sum().backward()
    sums = {"policy": policy, "value": value, "entropy": entropy, "approx_kl": log_old - log_p, "kl": kl,
            "clipfrac": (ratio - 1).abs() > CLIP}
    return {"gaussian": gaussian, "logits": logits, "out": numbers(out), "old": numbers(old),
            "value_old": numbers(value_old), "advantage": numbers(advantage), "target": numbers(target),
            "action": numbers(torch.stack(action, 1)), **{name: float(rows.sum()) for name, rows in sums.items()},
            "dout": numbers(out.grad)}


def squash(mean, log_std, noise):
    mean, log_std, noise = (torch.tensor(x).double() for x in (mean, log_std, noise))
    x = mean + log_std.exp() * noise
    squashed = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(cache_size=1)])
    action = squashed.transforms[0](x)
    return {"mean": float(mean), "log_std": float(log_std), "noise": float(noise), "action": float(action),
            "log_prob": float(squashed.log_prob(action))}


def main():
    cases = ((0.0, 0.0, 0.5), (1.5, -1.0, -2.0), (-3.0, 0.5, 1.25), (12.0, -0.5, 0.25), (0.25, 1.5, 3.0))
    golden.write(f"PPO's loss by PyTorch {torch.__version__.split('a')[0]}'s distributions",
                 losses=[compute_loss(gaussian) for gaussian in (0, 1)], squashed=[squash(*case) for case in cases])


main()
