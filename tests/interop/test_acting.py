#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All ways to act agree: for each shipped run file, the evaluation of a short run, `runner eval` of its directory and of
its file of weights, and the package heddle, loaded from either, return the same from the same seeds."""

import json
import os
import re
import sys

from heddle_package import heddle
from runner import ROOT, Scratch, call, check, train
from ways import take_share

EPISODES = 3
PLUGINS = os.path.join(os.path.dirname(os.environ["HEDDLE_INFER_LIBRARY"]), "plugins")
os.environ["HEDDLE_PLUGINS"] = PLUGINS
SHORT = dict(max_train_iter=4, env__stop_value="1e9", env__evaluator_env_num=EPISODES, env__n_evaluator_episode=EPISODES,
             env__max_evaluator_step=60, world__shards=1, policy__cuda="false", env__collector_env_num=2,
             policy__learn__batch_size=32, policy__learn__microbatch=0)
LEFT_OUT = {"cartpole_bc_ddp"}  # learns from a data set, and evaluates as DQN does
FOLDERS = {"atari": "heddle_env_atari.so", "gymnasium": "gymnasium"}  # what an environment needs beside the program


def list_configs():
    folder = os.path.join(ROOT, "configs")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".yaml") or name[:-5] in LEFT_OUT:
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        kind = re.search(r"type: (\w+)", text.partition("env:")[2])[1]
        if os.path.exists(os.path.join(PLUGINS, FOLDERS.get(kind, ""))):
            yield name[:-5], kind


def shorten(name):
    """Few samples, which algorithms need in numbers of their own."""
    with open(os.path.join(ROOT, f"configs/{name}.yaml"), encoding="utf-8") as file:
        text = file.read()
    keys = dict(SHORT)
    if "env_groups" in text:
        keys["policy__collect__env_groups"] = 2
    on_policy = re.search(r"type: (ppo|a2c)", text.partition("policy:")[2])
    if on_policy:
        keys["policy__collect__n_sample"] = 64
    else:
        keys["policy__other__replay_buffer__replay_buffer_size"] = 2000
    return keys


def play(policy, envs, seeds):
    """Greedy returns, one row at a time; an episode of an evaluation ends after so many steps."""
    returns, state = [], None
    for seed in seeds:
        obs, _ = envs.reset(seed=[seed])
        total, first = 0.0, True
        for _ in range(SHORT["env__max_evaluator_step"]):
            if policy.state_size:
                action, state = policy.predict(obs, state, [first])
            else:
                action = policy.act(obs)
            obs, reward, ended, cut, _ = envs.step(action)
            total, first = total + float(reward[0]), False
            if ended[0] or cut[0]:
                break
        returns.append(total)
    return returns


def check_config(scratch, name, kind):
    directory = scratch(name)
    run = train(directory, config=os.path.join(ROOT, f"configs/{name}.yaml"), **shorten(name))
    wanted, weights = run["last_value_raw"], os.path.join(directory, run["weights"])
    check(len(wanted) == EPISODES, f"{name}: {run}")
    done = json.loads(call("eval", directory, "--json", "--weights", weights).stdout)["episodes"]
    seeds = [episode["seed"] for episode in done]
    found = {"eval": [episode["return"] for episode in done]}
    builtin = kind not in FOLDERS
    if builtin:
        alone = call("eval", weights, "--json").stdout
        found["eval FILE"] = [episode["return"] for episode in json.loads(alone)["episodes"]]
    policies = {"load(DIR)": heddle.load(directory, weights), "load(FILE)": heddle.load(weights)}
    envs = policies["load(DIR)"].make_vec(1, allow_plugins=not builtin)
    for way, policy in policies.items():
        found[way] = play(policy, envs, seeds)
    if not builtin:
        try:
            policies["load(FILE)"].make_vec(1, allow_plugins=True)
            sys.exit(f"failed: {name}: a plug-in was loaded because of a file of weights")
        except heddle.InputError:
            pass
    envs.close()
    for way, returns in found.items():  # result.json has twelve digits
        check([float(f"{value:.12g}") for value in returns] == wanted, f"{name}: {way} returns {returns}, the run {wanted}")
    print(f"{name}: {', '.join(found)} return {wanted}", flush=True)


def main():
    with Scratch() as scratch:
        for name, kind in take_share(list_configs(), "configs", 4):
            check_config(scratch, name, kind)


main()
