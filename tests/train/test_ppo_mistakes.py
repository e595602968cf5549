#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes in configs and graphs of PPO are told at their place, and nothing is run."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check  # noqa: E402

PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")

# A text of the config or graph, what stands there instead, and what is told: the place by the text that it points at.
CONFIGS = [
    ("n_sample: 256", "n_sample: 256, env_groups: 3", "3", [
        "policy.collect.env_groups: expected a divisor of env.collector_env_num 8, found 3",
        "policy.collect.env_groups: expected a divisor of policy.collect.n_sample 256, found 3"]),
    ("n_sample: 256", "n_sample: 250, env_groups: 4", "4", [
        "policy.collect.env_groups: expected a divisor of policy.collect.n_sample 250, found 4"]),
    ("type: ppo", "type: dqn", "dqn", [
        "collect_on_policy samples from the logits of an actor: policy.type must be a2c or ppo, found dqn",
        "loss ppo learns an actor and a critic: policy.type must be ppo, found dqn"]),
    ("type: ppo", "type: bc", "bc", ["policy.type must be ppo, found bc"]),
    ("batch_size: 64", "batch_size: 64\n    microbatch: 7", "7", [
        "policy.learn.microbatch: expected a divisor of the batch's 64 rows, found 7"]),
    ("batch_size: 64", "batch_size: 64\n    microbatch: 128", "128", [
        "policy.learn.microbatch: expected a divisor of the batch's 64 rows, found 128"]),
    ("batch_size: 64", "batch_size: 100\n    accumulate: 3\n    minibatch_tail: short", "100", [
        "policy.learn.batch_size: expected a divisor of the batch's 256 rows, found 100; "
        "policy.learn.microbatch may be one instead"]),
    ("critic_head_hidden_size: 128", "critic_head_hidden_size: 64", "64", [
        "critic_head_hidden_size: expected 128, the width of the encoder's last layer"]),
    ("grad_clip_type: clip_norm", "grad_clip_type: clip_value", "clip_value", [
        "expected one of none, clip_norm, found 'clip_value'"]),
    ("gae_lambda: 0.95", "gae_lambda: 1.5", "1.5", ["policy.collect.gae_lambda: expected"]),
]

GRAPHS = [
    ("adam:      {reads: [mean_grad, grad_norm]", "adam:      {reads: [mean_grad]", "adam:", [
        "policy.learn.grad_clip_type clip_norm needs the result of a step grad_norm under `reads`"]),
    ("  - log:       {every: 100 update, reads: [means",
     "  - adapt_lr:     {reads: [episode_means], updates: [learning_rate]}\n"
     "  - log:       {every: 100 update, reads: [learning_rate, means", "adapt_lr:", [
         "adapt_lr needs the divergence kl_avg, which 'episode_means' does not hold"]),
    ("loss_grad: {loss: ppo, reads: [policy, batch]", "loss_grad: {loss: ppo, reads: [policy, advantages]",
     "loss_grad:", ["loss ppo takes a batch of type minibatch, but 'advantages' is of type advantages"]),
    ("loss: ppo", "loss: pqn", "pqn", ["expected a2c|bc|dqn|ppo|sac|sac_critic, found 'pqn'"]),
]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def place(text, changed, at):
    """line:column of the last `at` in what was changed."""
    offset = text.index(changed) + changed.rindex(at)
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"


def refused(path, where, expected):
    stderr = call("graph", path, expect=2).stderr
    for message in expected:
        found = [line for line in stderr.splitlines() if message in line]
        check(found, f"expected '{message}', found {stderr}")
        check(found[0].startswith(f"error: {where}: "), f"expected at {where}: {found[0]}")


def main():
    good = read(PPO).replace("graph: graphs", f"graph: {ROOT}/configs/graphs").replace(
        "strategies/", f"{ROOT}/configs/strategies/")
    graph = read(os.path.join(ROOT, "configs/graphs/ppo.yaml"))
    with Scratch() as scratch:
        config = scratch("config.yaml")
        for old, new, at, expected in CONFIGS:
            check(good.count(old) == 1, f"'{old}' is not there, or several times")
            text = good.replace(old, new)
            with open(config, "w", encoding="utf-8") as file:
                file.write(text)
            refused(config, f"{config}:{place(text, new, at)}", expected)
        for old, new, at, expected in GRAPHS:
            check(old in graph, f"'{old}' is not there")
            text = graph.replace(old, new, 1)
            if "learning_rate" in new:
                text = text.replace("values:\n", "values:\n  learning_rate: {type: scalars}\n", 1)
            with open(scratch("graph.yaml"), "w", encoding="utf-8") as file:
                file.write(text)
            with open(config, "w", encoding="utf-8") as file:
                file.write(re.sub("graph: .*", "graph: graph.yaml", good))
            refused(config, f"{scratch('graph.yaml')}:{place(text, new, at)}", expected)
    stderr = call("graph", CONFIG, "--set", "policy.type=ppo", expect=2).stderr
    check("--set:1:13: loss dqn learns values of actions: policy.type must be dqn, found ppo" in stderr, stderr)
    stderr = call("graph", PPO, "--set", "policy.learn.lr_scheduler.type=kl", expect=2).stderr
    check("lr_scheduler.type kl needs the result of a step adapt_lr under `reads`" in stderr, stderr)
    print(f"{len(CONFIGS) + len(GRAPHS) + 2} mistakes are told")


main()
