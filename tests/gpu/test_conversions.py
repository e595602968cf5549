#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An update by the only shard on one GPU converts neither gradients nor parameters between the flat array and the
GPU's order: no kernel but Adam's, which does it by the way, and those that add up biases."""

import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, environment, find_emulated, sets  # noqa: E402

RUNNER = find_emulated()
SMALL = dict(policy__cuda="true", world__shards=1, env__stop_value="1e9", env__collector_env_num=2,
             policy__eval__evaluator__eval_freq=10 ** 9, policy__collect__n_sample=16, policy__learn__batch_size=4)
DQN = ("cartpole_dqn_ddp", dict(SMALL, policy__learn__update_per_collect=1,
                                policy__model__encoder_hidden_size_list="[64,64]"))
PPO = ("cartpole_ppo_ddp", dict(SMALL, policy__model__encoder_hidden_size_list="[8,8]",
                                policy__model__actor_head_hidden_size=0, policy__model__critic_head_hidden_size=0))
BUCKETS = dict(strategy__bucket_mb=0.02)
CONVERSIONS = ("gather_gradient", "refresh", "sum_partials")


def count_kernels(scratch, name, config, keys, updates):
    """{kernel: how often it ran until so many updates were made}"""
    kernels, directory = scratch(f"{name}-{updates}.txt"), scratch(f"{name}-{updates}")
    command = ["run", os.path.join(ROOT, f"configs/{config}.yaml"), "--quiet", "--dir", directory,
               *sets(**keys, max_train_iter=updates)]
    subprocess.run([RUNNER, *command], check=True,
                   env=environment(HD_EMULATED_DEVICES=1, HD_EMULATED_KERNELS=kernels))
    with open(kernels, encoding="utf-8") as file:
        return collections.Counter(file.read().splitlines())


def check_kernels(scratch, name, config, keys, buckets):
    few, more = (count_kernels(scratch, name, config, keys, updates) for updates in (8, 16))
    more.subtract(few)
    converting = [kernel for kernel, n in more.items() if n and kernel.startswith(CONVERSIONS)]
    check(not converting and not few["gather_gradient"], f"{name}: 8 updates run {converting}: {few}, then {more}")
    check(more["step"] == more["begin_step"] == 8 * buckets and more["finish_sums"] >= 8, f"{name}: {more}")
    print(f"{name}: {sum(more.values()) / 8:.0f} kernels for each update, none of which converts")


def main():
    with Scratch() as scratch:
        check_kernels(scratch, "dqn", *DQN, 1)
        check_kernels(scratch, "ppo", *PPO, 1)
        check_kernels(scratch, "buckets", DQN[0], dict(DQN[1], **BUCKETS), 4)


main()
