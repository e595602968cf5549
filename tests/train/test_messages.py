#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that newcomers type: each message says what was found, what was expected, where, and what to do."""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check  # noqa: E402

# What is typed, and parts of the one message that answers.
COMMANDS = [
    (["keys", "policy.learn.lr"], ["no key 'policy.learn.lr'", "did you mean 'policy.learn.learning_rate'?"]),
    (["keys", "polcy.learn.learning_rate"], ["did you mean 'policy.learn.learning_rate'?"]),
    (["verbs", "adm"], ["no verb 'adm'", "did you mean 'adam'?"]),
    (["keyz"], ["did you mean 'keys'?"]),
    (["verb"], ["did you mean 'verbs'?"]),
    (["train", CONFIG], ["unknown command 'train' (did you mean 'run'?)"]),
    (["evaluate", CONFIG], ["did you mean 'eval'?"]),
    (["run", "-"], ["'-': a config is not read from standard input"]),
    (["run", "--", "-x"], ["-x: the config cannot be read"]),
    (["doctor", "here"], ["doctor takes no argument, found 'here'"]),
    (["graph", "configs/cartpole_dqn.yaml"],
     ["configs/cartpole_dqn.yaml", "No such file", "did you mean 'configs/cartpole_dqn_ddp.yaml'?"]),
    (["graph", "cartpole_bc_ddp"], ["did you mean 'configs/cartpole_bc_ddp.yaml'?"]),
]
OPTIONS = [
    (["--seed", "-1"], ["--seed: seed: expected an integer in [0, 9007199254740992], found '-1'"]),
    (["--strategy", "pipeline"], ["--strategy: ", "did you mean 'pipelined.yaml'?"]),
    (["--set", "policy.learn.learning_rate", "0.1"],
     ["--set needs KEY=VALUE, found 'policy.learn.learning_rate'; write --set policy.learn.learning_rate=0.1"]),
    (["--set", "policy.learn.learning_rate"], ["write --set policy.learn.learning_rate=VALUE"]),
    (["--set", "policy.type=td3"], ["--set:1:13: policy.type: expected one of a2c, bc, dqn, ppo, sac, found 'td3'\n"]),
    (["--set", "max_env_step=0.5"], ["an integer in [1, 1000000000000000], found '0.5'"]),
    (["--lr", "0.1"], ["unknown option '--lr'", "--set KEY=VALUE", "'policy.learn.learning_rate'"]),
    (["--batch-size=3"], ["'policy.learn.batch_size'"]),
    (["-x"], ["unknown option '-x'"]),
]
PPO, PPO_FAST = "configs/cartpole_ppo_ddp.yaml", "graph=graphs/ppo_fast.yaml"
REPLAY = "policy.other.replay_buffer.replay_buffer_size"
CONTRADICTIONS = [  # keys that exclude each other, each at its place
    (CONFIG, ["policy.learn.batch_size=100000"],
     f"--set:1:25: policy.learn.batch_size: expected at most {REPLAY}, which is 20000, found 100000: "),
    (CONFIG, [f"{REPLAY}=32"], f":16:46: policy.learn.batch_size: expected at most {REPLAY}, which is 32, found 64: "),
    (CONFIG, [f"{REPLAY}=7", "policy.learn.batch_size=4"],
     f"policy.collect.n_sample: expected at most {REPLAY}, which is 7, found 8: "),
    (PPO, [PPO_FAST, "policy.learn.lr_scheduler.kl_low=3"],
     "--set:2:34: policy.learn.lr_scheduler.kl_low: expected at most policy.learn.lr_scheduler.kl_high, which is 0.02"),
    (PPO, [PPO_FAST, "policy.learn.lr_scheduler.min=3"], "expected at most policy.learn.lr_scheduler.max"),
]
UNUSED = [  # with other values than the default; and what is used, or changes nothing
    (CONFIG, "policy.learn.clip_ratio=0.3", "warning: --set:1:25: policy.learn.clip_ratio is not used by dqn\n"),
    (PPO, "policy.learn.target_update_freq=3", "policy.learn.target_update_freq is not used by ppo\n"),
    (PPO, "policy.other.eps.start=0.5", "policy.other.eps.start is not used by ppo\n"),
    (CONFIG, "policy.learn.clip_ratio=0.2", ""),
    (CONFIG, "policy.cuda=false", ""),
]
ALIASES = {
    "lr": "policy.learn.learning_rate", "gamma": "policy.discount_factor", "n_envs": "env.collector_env_num",
    "num_envs": "env.collector_env_num", "total_timesteps": "max_env_step", "batch_size": "policy.learn.batch_size",
    "policy.seed": "seed", "buffer_size": "policy.other.replay_buffer.replay_buffer_size",
    "policy.learn.ent_coef": "policy.learn.entropy_weight", "policy.n_steps": "policy.collect.n_sample",
}


def expect(arguments, parts, cwd=ROOT):
    said = call(*arguments, cwd=cwd, expect=2).stderr
    check(said.count("error: ") == 1 and all(part in said for part in parts), f"{arguments}: {said}")


def check_reference():
    learn = call("keys", "policy.learn").stdout
    check("policy.learn.batch_size: 64\n" in learn and "policy.nstep" not in learn, learn)
    one = call("keys", "policy.learn.learning_rate").stdout
    check(one.startswith("policy.learn.learning_rate: 0.001\n") and one.count("\n") == 2, one)
    verb = call("verbs", "adam").stdout
    check(verb.startswith("adam\n") and "\nsave\n" not in verb, verb)
    for command in ("keys", "verbs"):
        check(call(command, "--help").stdout.startswith(f"usage: runner {command} ["), command)


def check_unused():
    for config, given, warning in UNUSED:
        said = call("graph", config, "--set", given, cwd=ROOT).stderr
        check(said.endswith(warning) and said.count("\n") == warning.count("\n"), f"{given}: {said}")
    for path in glob.glob("configs/*.yaml", root_dir=ROOT):
        said = call("graph", path, cwd=ROOT, expect=None).stderr
        check("not used" not in said, f"{path}: {said}")


def check_memory(scratch):
    """At once and before anything is left behind; several ranks say it once."""
    hidden = "policy.model.encoder_hidden_size_list"
    for command in (["run"], ["launch", "--nproc-per-node", "2"]):
        for key, value, name in ((REPLAY, "1e9", "'replay' of type replay"), (hidden, "[1000000, 1000000]", "of type ")):
            expect([*command, CONFIG, "--dir", scratch("huge"), "--set", f"{key}={value}"],
                   ["no memory: ", " are free here", name, key])
    check(not os.path.exists(scratch("huge")), "a refused run left a directory")


def check_folder():
    said = call("run", CONFIG, cwd="/proc", expect=1).stderr
    check("the run directory /proc/cartpole_dqn_ddp cannot be made: " in said and "--dir names another" in said, said)


def main():
    check_folder()
    check_reference()
    check_unused()
    for config, keys, message in CONTRADICTIONS:
        expect(["graph", config, *(word for key in keys for word in ("--set", key))], [message])
    for arguments, parts in COMMANDS:
        expect(arguments, parts)
    for arguments, parts in OPTIONS:
        expect(["graph", CONFIG, *arguments], parts)
    for name, key in ALIASES.items():
        expect(["graph", CONFIG, "--set", f"{name}=1"], ["--set:1:", f"did you mean '{key}'"])
    call("graph", "--rank", "0", "--", CONFIG)
    with Scratch() as scratch:
        check_memory(scratch)
        call("launch", "--dir", scratch("run"), "--set", "max_train_iter=5", "--", CONFIG)
        with open(scratch("list.yaml"), "w", encoding="utf-8") as file:
            file.write("- seed: 1\n")
        expect(["graph", scratch("list.yaml")], ["list.yaml:1:1: expected a map of keys, found a list"])


main()
