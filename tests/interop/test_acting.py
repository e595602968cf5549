#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All ways to act agree: for each shipped run file, the evaluation of a short run, `runner eval` of its directory and of
its file of weights, and the package heddle, loaded from either, return the same from the same seeds."""

import json
import os
import sys

from heddle_package import heddle
from runner import Scratch, call, check, train
from short_runs import EPISODES, FOLDERS, STEPS, find_config, list_configs, shorten
from ways import take_share


def play(policy, envs, seeds):
    """Greedy returns, one row at a time; an episode of an evaluation ends after so many steps."""
    returns, state = [], None
    for seed in seeds:
        obs, _ = envs.reset(seed=[seed])
        total, first = 0.0, True
        for _ in range(STEPS):
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
    run = train(directory, config=find_config(name), **shorten(name))
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
