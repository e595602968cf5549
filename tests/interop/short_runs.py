# SPDX-License-Identifier: Apache-2.0
"""Short runs of the shipped run files, for the weights that they leave."""

import os
import re

from runner import ROOT

EPISODES = 3
STEPS = 60  # of an episode of an evaluation, at most
PLUGINS = os.path.join(os.path.dirname(os.environ["HEDDLE_INFER_LIBRARY"]), "plugins")
os.environ["HEDDLE_PLUGINS"] = PLUGINS
SHORT = dict(max_train_iter=4, env__stop_value="1e9", env__evaluator_env_num=EPISODES, env__n_evaluator_episode=EPISODES,
             env__max_evaluator_step=STEPS, world__shards=1, policy__cuda="false", env__collector_env_num=2,
             policy__learn__batch_size=32, policy__learn__microbatch=0)
LEFT_OUT = {"cartpole_bc_ddp"}  # learns from a data set, and evaluates as DQN does
FOLDERS = {"atari": "heddle_env_atari.so", "gymnasium": "gymnasium"}  # what an environment needs beside the program


def find_config(name):
    return os.path.join(ROOT, f"configs/{name}.yaml")


def list_configs():
    """(name, type of environment) of the run files whose environments are here."""
    for name in sorted(os.listdir(os.path.join(ROOT, "configs"))):
        if not name.endswith(".yaml") or name[:-5] in LEFT_OUT:
            continue
        with open(find_config(name[:-5]), encoding="utf-8") as file:
            kind = re.search(r"type: (\w+)", file.read().partition("env:")[2])[1]
        if os.path.exists(os.path.join(PLUGINS, FOLDERS.get(kind, ""))):
            yield name[:-5], kind


def shorten(name):
    """Few samples, which algorithms need in numbers of their own."""
    with open(find_config(name), encoding="utf-8") as file:
        text = file.read()
    keys = dict(SHORT)
    if "env_groups" in text:
        keys["policy__collect__env_groups"] = 2
    on_policy = re.search(r"type: (ppo|a2c|vtrace)", text.partition("policy:")[2])
    if on_policy:
        keys["policy__collect__n_sample"] = 64
    else:
        keys["policy__other__replay_buffer__replay_buffer_size"] = 2000
    return keys
