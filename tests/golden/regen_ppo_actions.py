#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/ppo_actions.h: PPO's loss of actions of several numbers, by PyTorch's distributions.

Usage: regen_ppo_actions.py > tests/golden/ppo_actions.h (with PyTorch, in double)
"""
import torch
from torch.distributions import Categorical, Normal, TanhTransform, TransformedDistribution, kl_divergence

ROWS, CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT = 8, 0.2, 0.5, 0.03

HEAD = f"""/* SPDX-License-Identifier: Apache-2.0 */
/* PPO's loss by PyTorch {torch.__version__.split("a")[0]}'s distributions. Written by regen_ppo_actions.py. */
#ifndef HD_TESTS_GOLDEN_PPO_ACTIONS_H
#define HD_TESTS_GOLDEN_PPO_ACTIONS_H

enum {{ GOLDEN_ROWS = {ROWS} }};

/* Actions of two real numbers (4 logits), or of two choices of 2 and 3 (5 logits). Sums are over
 * the rows, and dout is the derivative of the loss. */
struct golden_ppo {{
    int gaussian, logits;
    float out[{ROWS} * 6], old[{ROWS} * 5], value_old[{ROWS}], advantage[{ROWS}], target[{ROWS}];
    float action[{ROWS} * 2];
    double policy, value, entropy, approx_kl, kl, clipfrac, dout[{ROWS} * 6];
}};

/* A squashed normal distribution: the action of a noise, and its log probability. */
struct golden_squashed {{
    float mean, log_std, noise;
    double action, log_prob;
}};

/* clang-format off */"""


def distribution(logits, gaussian):
    if gaussian:
        return [Normal(logits[:, i], logits[:, 2 + i].exp()) for i in range(2)]
    return [Categorical(logits=logits[:, :2]), Categorical(logits=logits[:, 2:])]


def numbers(tensor):
    return "{" + ", ".join(repr(float(x)) for x in tensor.flatten()) + "}"


def write(gaussian):
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
    sums = [policy.sum(), value.sum(), entropy.sum(), (log_old - log_p).sum(), kl.sum(),
            ((ratio - 1).abs() > CLIP).sum()]
    print(f"    {{{gaussian}, {logits}, {numbers(out)}, {numbers(old)}, {numbers(value_old)}, {numbers(advantage)},")
    print(f"     {numbers(target)}, {numbers(torch.stack(action, 1))},")
    print(f"     {', '.join(repr(float(x)) for x in sums)}, {numbers(out.grad)}}},")


def write_squashed(mean, log_std, noise):
    mean, log_std, noise = (torch.tensor(x).double() for x in (mean, log_std, noise))
    x = mean + log_std.exp() * noise
    squashed = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(cache_size=1)])
    action = squashed.transforms[0](x)
    print(f"    {{{float(mean)}f, {float(log_std)}f, {float(noise)}f, {float(action)!r}, "
          f"{float(squashed.log_prob(action))!r}}},")


def main():
    print(HEAD)
    print("static const struct golden_ppo golden_ppo[] = {")
    write(0)
    write(1)
    print("};\nstatic const struct golden_squashed golden_squashed[] = {")
    for mean, log_std, noise in ((0.0, 0.0, 0.5), (1.5, -1.0, -2.0), (-3.0, 0.5, 1.25), (12.0, -0.5, 0.25), (0.25, 1.5, 3.0)):
        write_squashed(mean, log_std, noise)
    print("};\n/* clang-format on */\n\n#endif")


main()
