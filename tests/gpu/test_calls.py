#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run on GPUs that is warm creates no events and switches no devices, with any scheduler, on one GPU and on two:
StarPU would create an event each time a value is next used on the other side (runtime/engine/submit.c). Only
checkpoints copy to memory that is not pinned. A step of all envs of a shard whose actions the GPU chooses is two
launches there, and eight updates are one task and one launch, each of no more kernels and copies than here; one is, where
a CPU core has a part in it."""

import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, environment, find_emulated, sets  # noqa: E402

RUNNER = find_emulated()
SMALL = dict(policy__cuda="true", env__stop_value="1e9", max_train_iter=10 ** 9, env__collector_env_num=2,
             policy__eval__evaluator__eval_freq=10 ** 9, policy__collect__n_sample=16, policy__learn__batch_size=4)
ENCODER = dict(policy__model__encoder_hidden_size_list="[8,8]")
DQN = ("cartpole_dqn_ddp", dict(ENCODER, policy__learn__update_per_collect=1))
PPO = ("cartpole_ppo_ddp", dict(ENCODER, policy__model__actor_head_hidden_size=0, policy__model__critic_head_hidden_size=0))
SAC = ("pendulum_sac", dict(policy__random_collect_size=32, max_env_step=10 ** 9))
# 100 steps of 12 envs in groups of two, whose actions the GPU chooses: the first 200 tasks on it are acts.
GROUPS, STEPS = 6, 100
ACT = ("cartpole_ppo_ddp", dict(PPO[1], policy__collect__overlap_act_step="true", policy__collect__segment_at_done="false",
                                env__collector_env_num=2 * GROUPS, policy__collect__env_groups=GROUPS,
                                policy__collect__n_sample=2 * GROUPS * STEPS, policy__learn__batch_size=2 * GROUPS * STEPS))
# Those of DQN, whose stages are for the longest collect that there may be.
GREEDY = ("cartpole_dqn_ddp", dict(ENCODER, policy__collect__overlap_act_step="true", policy__other__eps__start=0,
                                   policy__other__eps__end=0, env__collector_env_num=4, policy__collect__n_sample=400))
# Long repeats of updates. The target net is copied every second update.
UPDATES = [("cartpole_dqn_ddp", dict(ENCODER, policy__learn__update_per_collect=1000, policy__learn__batch_size=16,
                                     policy__learn__target_update_freq=2), "lws", 1),
           ("cartpole_ppo_ddp", dict(PPO[1], policy__learn__epoch_per_collect=1000), "lws", 1),
           ("cartpole_ppo_ddp", dict(PPO[1], policy__learn__epoch_per_collect=1000, world__shards=2), "prio", 1),
           ("pendulum_sac", dict(SAC[1], policy__learn__update_per_collect=1000), "lws", 1)]
CASES = [(*DQN, "lws", 1), (*DQN, "prio", 2), (*PPO, "eager", 1), (*PPO, "lws", 2), (*SAC, "prio", 2)]
CHECKPOINTS = [(*DQN, "prio", 1, 100, 400, 0.001), (*PPO, "lws", 2, 100, 400, 0.001)]
PAGEABLE = "cudaMemcpyAsync of pageable memory"
UNWANTED = ("cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaSetDevice to another device",
            PAGEABLE)


def is_written(path):
    return os.path.exists(path) and os.path.getsize(path) > 0


def count(scratch, config, keys, scheduler, gpus, first=100, last=150, interval_s=60,
          label=""):
    """{call: how often it was made during these tasks of a run}"""
    name = f"{config}{label}-{scheduler}-{gpus}-{first}-{interval_s}"
    counts, library = scratch(name + ".json"), os.path.join(os.path.dirname(RUNNER), "../libcount_calls.so")
    env = environment(HD_EMULATED_DEVICES=gpus, HD_COUNT_CALLS=counts, HD_COUNT_FROM=first, HD_COUNT_TO=last,
                      LD_PRELOAD=library)
    command = ["run", os.path.join(ROOT, f"configs/{config}.yaml"), "--quiet", "--dir", scratch(name),
               *sets(**(SMALL | dict(world__shards=gpus) | keys), runtime__scheduler=scheduler, runtime__gpus=gpus,
                     runtime__checkpoint_interval_s=interval_s)]
    process = subprocess.Popen([RUNNER, *command], env=env, stderr=subprocess.PIPE, text=True)
    try:
        while not is_written(counts):
            try:
                process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            check(is_written(counts), f"{name}: ended with {process.returncode}: {process.stderr.read()[-600:]}")
    finally:
        process.kill()
        process.communicate()
    written = os.path.exists(os.path.join(scratch(name), "ckpt/state/latest"))
    check(written == (interval_s < 60), f"{name}: checkpoints were {'' if written else 'not '}written")
    with open(counts, encoding="utf-8") as file:
        return name, json.load(file)


def check_launches(name, calls, what, most, some=False):
    """Each task on the GPU, or `some` of them, launches one graph of at most so many kernels and copies, and nothing
    else. Counting may begin or end between a launch and StarPU's record of it."""
    tasks = calls["cudaEventRecord"]  # by StarPU, one for each
    kernels = calls["cudaLaunchKernel"] + calls["__cudaLaunchKernel"] + calls["cudaMemcpyAsync"]
    nodes = calls["nodes of launched graphs"] / max(1, calls["cudaGraphLaunch"])
    print(f"{name}: {calls['cudaGraphLaunch']} graphs of {nodes:.1f} nodes, and {kernels} kernels and copies launched by "
          f"{tasks} {what}")
    check(0 < nodes <= most, f"{name}: more than {most} nodes")
    check(tasks + 1 >= calls["cudaGraphLaunch"] >= (10 if some else tasks - 1) and tasks >= 38 and kernels == 0,
          f"{name}: {calls}")


def check_tasks(scratch, updates=20):
    """The five updates of a collect are one task, and the four of an epoch, with one shard and with two, whose gradients
    are added in it; and an update whose temperature a CPU core adapts."""
    for (config, keys, scheduler, shards), wanted in zip(UPDATES, (updates / 5, updates / 4, updates / 4, updates)):
        directory = scratch(f"{config}-{keys.get('world__shards', shards)}-traced")
        keys = SMALL | dict(world__shards=1) | keys | dict(max_train_iter=updates, runtime__scheduler=scheduler)
        keys |= {key: 5 for key in keys if key in ("policy__learn__update_per_collect", "policy__learn__epoch_per_collect")}
        trace(config, directory, keys)
        told = subprocess.run([RUNNER, "trace", directory], env=environment(), text=True, capture_output=True).stdout
        tasks = re.search(r"^(sample_\w+\.\.\w+) +(\d+) ", told, re.M)
        print(f"{directory}: {tasks[1]}: {tasks[2]} tasks")
        check(int(tasks[2]) == wanted, told)


def trace(config, directory, keys):
    """The tasks of a run."""
    command = ["run", os.path.join(ROOT, f"configs/{config}.yaml"), "--quiet", "--trace", "--dir", directory, *sets(**keys)]
    done = subprocess.run([RUNNER, *command], env=environment(), text=True, capture_output=True)
    check(done.returncode == 0, done.stderr)
    with open(os.path.join(directory, "trace.json"), encoding="utf-8") as file:
        return [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]


def check_acts(scratch):
    """A step of all envs is an act for each part of them, and as many tasks of CPUs as there are groups."""
    config = ACT[0]
    for parts, more in ((2, {}), (3, dict(policy__collect__act_parts=3))):
        keys = SMALL | ACT[1] | more | dict(max_train_iter=2, world__shards=1)
        tasks = collections.Counter((task["args"]["iteration"], task["args"]["stage"])
                                    for task in trace(config, scratch(f"acts{parts}"), keys)
                                    if task["name"] == "collect_on_policy")
        acts = [tasks[0, stage] for stage in range(1, 2 * STEPS + 1, 2)]
        steps = [tasks[0, stage] for stage in range(2, 2 * STEPS + 1, 2)]
        print(f"acting: {sum(acts)} tasks on the GPU and {sum(steps)} on CPUs for {STEPS} steps of {2 * GROUPS} envs")
        check(set(acts) == {parts} and set(steps) == {GROUPS}, f"{tasks}")


def main():
    with Scratch() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, future in [(case, pool.submit(count, scratch, *case)) for case in CASES + CHECKPOINTS]:
            name, calls = future.result()
            check(calls["cudaEventRecord"] > 0, f"{name}: nothing ran: {calls}")
            check(not any(calls[call] for call in UNWANTED if call != PAGEABLE or case in CASES), f"{name}: {calls}")
            print(f"{name}: {calls['cudaGraphLaunch']} graphs launched, no event created, {calls[PAGEABLE]} pageable copies")
        # Eight updates of DQN; of PPO four, and three tasks of an epoch before them; one of SAC.
        for case, most in zip(UPDATES, (8 * 28, 26, 36, 97)):
            name, calls = count(scratch, *case, first=20, last=60)
            check_launches(name, calls, "tasks", most)
        check_tasks(scratch)
        check_acts(scratch)
        name, calls = count(scratch, *ACT, "lws", 1, 20, 90, label="-acts")
        check_launches(name, calls, "acts", 7)
        config, keys = ACT
        name, calls = count(scratch, config, dict(keys, policy__collect__segment_at_done="true"), "lws", 1, 20, 90, label="-ends")
        check_launches(name, calls, "acts of fragments that end with episodes", 7, some=True)
        name, calls = count(scratch, *GREEDY, "lws", 1, 20, 90, label="-greedy")
        check_launches(name, calls, "greedy acts", 7, some=True)


main()
