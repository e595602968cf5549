#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environments of Gymnasium, from end to end: CartPole's run ends in the bits of the built-in one, on ranks and
workers of any number and after a stop; other actions and wrappers train; a worker learns while Python steps; and
nothing starts Python that should not."""

import glob
import json
import os
import re
import shlex
import shutil
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, result, sets, skip, train  # noqa: E402
from ways import check_ways  # noqa: E402

PYTHON = os.path.join(ROOT, "build/plugins/gymnasium")
CARTPOLE = os.path.join(ROOT, "configs/gym_cartpole_dqn.yaml")
PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
PENDULUM = os.path.join(ROOT, "configs/pendulum_ppo.yaml")
SHORT = {"max_train_iter": 300, "env__stop_value": "1e9", "world__shards": 2, "env__evaluator_env_num": 2,
         "env__n_evaluator_episode": 2}
OURS = {"env__options__python": PYTHON}
WALK = {**OURS, "env__type": "gymnasium", "env__env_id": "gymnasium_envs:Walk-v0", "env__stop_value": "1e9",
        "env__options__path": os.path.join(ROOT, "tests/kernels/envs"), "policy__model__obs_shape": "auto",
        "policy__model__action_shape": "auto", "policy__action_space": "auto",
        "max_train_iter": 40, "policy__collect__n_sample": 128, "policy__eval__evaluator__eval_freq": 20,
        "world__shards": 2, "env__evaluator_env_num": 2, "env__n_evaluator_episode": 2}


def check_bits(scratch):
    ways = [dict(env__options__worker=3), dict(ranks=2), dict(runtime__executor="sequential"),
            dict(env__options__save="pickle")]
    found = check_ways(scratch, "cartpole", dict(SHORT, **OURS, config=CARTPOLE), ways)
    wanted = train(scratch("built-in"), **SHORT)["param_hash"]
    check(found == wanted, f"Gymnasium's CartPole ends in {found}, ours in {wanted}")
    return wanted


def check_resumed(scratch, wanted):
    for save in ("actions", "pickle"):
        keys = {**SHORT, **OURS, "env__options__save": save}
        train(scratch(save), config=CARTPOLE, **{**keys, "max_train_iter": 150})
        said = call("run", CARTPOLE, "--dir", scratch(save), "--resume", *sets(**keys)).stderr
        check(("holds pickles" in said) == (save == "pickle"), f"save: {save}: {said}")
        found = result(scratch(save))["param_hash"]
        check(found == wanted, f"a resumed run (save: {save}) ends in {found}, not {wanted}")


def count_inside(directory, outer, inner):
    """How many calls of an inner task begin between the first and the last call of an outer one, which is (name, item),
    and how many there are."""
    with open(os.path.join(directory, "trace.json"), encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    calls = {}
    for event in events:
        if (event["name"], event["args"]["item"]) == outer:
            calls.setdefault(event["args"]["iteration"], []).append(event["ts"])
    begins = [event["ts"] for event in events if (event["name"], event["args"]["item"]) in inner]
    return sum(any(min(ts) < begin < max(ts) for ts in calls.values()) for begin in begins), len(begins)


def check_waits(scratch):
    """The only worker learns, or evaluates elsewhere, while Python steps, and the bits are those of runs in which it waits."""
    slow = "{wrappers: [{'gymnasium_envs:Slow': {seconds: 0.005}}]}"
    common = dict(OURS, env__options__path=os.path.join(ROOT, "tests/kernels/envs"), env__stop_value="1e9", world__shards=1,
                  env__evaluator_env_num=2, env__n_evaluator_episode=2)
    for name, config, outer, inner, keys in (
            ("dqn", CARTPOLE, ("collect", 0), [("loss_grad", 0), ("adam", 0)], dict(max_train_iter=60, policy__collect__n_sample=32)),
            ("ppo", PPO, ("collect_on_policy", 0), [("loss_grad", 0), ("adam", 0)],
             dict(max_train_iter=40, policy__collect__n_sample=64, policy__learn__batch_size=32, env__type="gymnasium",
                  env__env_id="CartPole-v1", env__options__max_episode_steps=200, env__options__obs_shape=4,
                  env__options__actions=2)),
            ("evaluation", CARTPOLE, ("evaluate", 0), [("evaluate", 1)], dict(max_train_iter=10))):
        keys = {**common, **keys, "strategy__policy_lag": 1}
        hashes = {train(scratch(f"{name}-quick"), config=config, **keys)["param_hash"],
                  train(scratch(f"{name}-alone"), config=config, **keys, runtime__executor="sequential")["param_hash"]}
        side = "evaluator" if outer[0] == "evaluate" else "collector"
        keys["env__options__" + side] = slow
        for workers in (1, 2):
            run = train(scratch(f"{name}-{workers}"), "--trace", config=config, **keys, runtime__workers=workers)
            hashes.add(run["param_hash"])
        check(len(hashes) == 1 and None not in hashes, f"{name}: {hashes}")
        inside, of = count_inside(scratch(f"{name}-1"), outer, inner)
        # Where there are several items, the one that finishes the step is a call of item 0 as well.
        check(inside > 1, f"{name}: {inside} of {of} calls of {inner} begin while {outer} waits")
        print(f"{name}: {inside} of {of} calls of {inner} begin while {outer} waits; the bits are {hashes}")


def check_kinds(scratch):
    """One rank by the spaces that the env has, and two by the same, stated, end in the same bits and configuration."""
    for name, keys, stated in (
            ("box", dict(env__options__kwargs="{actions: box}"), ("3", "2", "continuous")),
            ("several", dict(env__options__kwargs="{actions: several}"), ("3", "[3,2]", "discrete")),
            ("nested", dict(env__options__kwargs="{actions: choices, obs: nested}"), ("26", "[2,2,3,2,3]", "discrete")),
            ("wrapped", dict(env__options__kwargs="{actions: reals, obs: tuple}", env__options__wrappers="[{ClipReward: {max_reward: 5}}]"),
             ("5", "2", "continuous"))):
        said = {**WALK, **keys, **dict(zip(("policy__model__obs_shape", "policy__model__action_shape", "policy__action_space"),
                                           stated))}
        hashes = {train(scratch(f"{name}-1"), config=PENDULUM, **{**WALK, **keys})["param_hash"],
                  train(scratch(f"{name}-2"), config=PENDULUM, ranks=2, **said)["param_hash"]}
        check(len(hashes) == 1 and None not in hashes, f"{name}: {hashes}")
        again = call("run", PENDULUM, "--resume", scratch(f"{name}-1"), *sets(**said)).stderr
        check("has ended" in again, f"{name}: another config: {again}")
        print(f"{name}: one and two ranks end in {hashes}")


def check_bounds(scratch):
    """SAC's runs with declared spaces, with those that Python tells, and on the built-in Pendulum have the same bits;
    the bounds stand in the effective config, and others are refused."""
    sac, short = os.path.join(ROOT, "configs/gym_pendulum_sac.yaml"), dict(max_train_iter=300, world__shards=2)
    runs = [train(scratch("declared"), config=sac, **short, **OURS),
            train(scratch("asked"), config=sac, **short, env__options="{python: %s, max_episode_steps: 200}" % PYTHON),
            train(scratch("own"), config=os.path.join(ROOT, "configs/pendulum_sac.yaml"), **short)]
    check(len({run["param_hash"] for run in runs}) == 1, f"{[run['param_hash'] for run in runs]}")
    with open(scratch("asked/total_config.yaml"), encoding="utf-8") as file:
        check(re.search(r"action_bounds:.*\n\s+low: \[-2\]\n\s+high: \[2\]\n", file.read()), "no bounds")
    wrong = sets(**short, **OURS, env__options__high=1)
    said = call("run", sac, "--dir", scratch("wrong"), *wrong, expect=1).stderr
    check("low [-2.0], high [1.0]" in said and "low [-2.0], high [2.0]" in said, said)
    said = call("eval", scratch("own"), "--set", "policy.action_bounds={low: -1, high: 1}", expect=2).stderr
    check("lies from -2 to 2, found -1 to 1" in said, said)


def check_sides(scratch):
    """A wrapper of the collector's does not touch what evaluations return; both sides show the same."""
    shaped = "{wrappers: [{ClipReward: {min_reward: -1, max_reward: 0}}], kwargs: {length: 9}}"
    keys = {**WALK, "env__options__kwargs": "{actions: box, length: 30}"}
    keys["max_train_iter"] = 220
    sides = train(scratch("sides"), config=PENDULUM, env__options__collector=shaped, **keys)
    check(sides["train_value"] == 0 and sides["last_value"] > 0, f"{sides}")
    check(list(map(int, re.findall(r"lengths (.*)", call("eval", scratch("sides"), "--episodes", "2").stdout)[0].split())) == [30, 30],
          "the evaluator's arguments are not the common ones")
    hidden = os.path.join(ROOT, "configs/cartpole_hidden_ppo_gru.yaml")
    for side, word, said in (("evaluator", "{velocities: true}", "shows [4], found [2]"), ("collector", "3", "expected a map of options")):
        told = call("run", hidden, "--dir", scratch("refused"), "--set", f"env.options.{side}={word}", expect=2).stderr
        check(said in told, told)


def check_arguments(scratch):
    """Words that Python would take for true are refused; quoted ones are texts."""
    for word, said in (("no", "write false"), ("On", "write true")):
        words = sets(**SHORT, **OURS, env__options__kwargs="{flag: %s}" % word)
        told = call("run", CARTPOLE, "--dir", scratch("words"), *words, expect=2).stderr
        check(said in told and f'"{word}" for the text' in told, told)


def check_readme(scratch):
    """The README's own environment trains by the command that stands there."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        section = file.read().partition("## Train on your own environment")[2].partition("\n## ")[0]
    os.makedirs(scratch("readme/envs"))
    with open(scratch("readme/envs/my_module.py"), "w", encoding="utf-8") as file:
        file.write(re.search(r"```python\n(.*?)```", section, re.S)[1])
    command = re.search(r"build/runner (run .*?\n)build", section, re.S)[1].replace("\\\n", " ")
    words = shlex.split(command.replace("configs/", f"{ROOT}/configs/"))
    call(*words, "--set", "max_train_iter=200", cwd=scratch("readme"))
    check(result(scratch("readme/mine"))["train_iter"] >= 200, f"{words}")


def check_no_python(scratch):
    """A run file is looked at without Python, unless that is allowed."""
    started, fake = scratch("started"), scratch("python")
    with open(fake, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\ntouch {started}\nexit 3\n")
    os.chmod(fake, stat.S_IRWXU)
    spaces = {"env__options__obs_shape": 4, "env__options__actions": 2, "env__options__max_episode_steps": 200}
    keys = {"env__type": "gymnasium", "env__env_id": "CartPole-v1", "env__options__python": fake}
    said = call("graph", CONFIG, *sets(**keys), expect=2).stderr
    for words in ("--set:1:10: env.type: ", "'CartPole-v1'", "--allow-plugin", "obs_shape"):
        check(words in said, said)
    call("graph", CONFIG, *sets(**keys, **spaces))
    call("graph", CONFIG, *sets(**keys, **spaces, env__options__render="true"), expect=2)
    call("keys", "env.options")
    check(not os.path.exists(started), "Python was started")
    for allowed in (call("graph", CONFIG, "--allow-plugin", *sets(**keys), expect=2),
                    call("graph", CONFIG, *sets(**keys), env=environment(HEDDLE_ALLOW_PLUGIN=1), expect=2)):
        check("exited with code 3" in allowed.stderr, allowed.stderr)
    check(os.path.exists(started), "Python was not started")
    os.makedirs(scratch("runs"))
    with open(CONFIG, encoding="utf-8") as file:
        text = re.sub(": (graphs|strategies)/", f": {ROOT}/configs/\\1/", file.read())
    with open(scratch("runs/cartpole.yaml"), "w", encoding="utf-8") as file:
        file.write(text.replace("env: {type: cartpole,", "env: {type: gymnasium, options: {python: ../python},"))
    said = call("graph", scratch("runs/cartpole.yaml"), "--allow-plugin", "--set", "env.env_id=CartPole-v1", cwd="/", expect=2)
    check("exited with code 3" in said.stderr, said.stderr)


def check_paths(scratch):
    """Paths of a run file are relative to it, those of --set to the working directory, and the effective config plays
    from anywhere."""
    project = scratch("a: project")
    config = os.path.join(project, "runs/walk.yaml")
    os.makedirs(os.path.dirname(config))
    os.symlink(os.path.join(ROOT, "tests/kernels/envs"), os.path.join(project, "envs"))
    os.symlink(PYTHON, os.path.join(project, "venv"))
    with open(PENDULUM, encoding="utf-8") as file:
        text = re.sub(": (graphs|strategies)/", f": {ROOT}/configs/\\1/", file.read())
    with open(config, "w", encoding="utf-8") as file:
        file.write(text.replace("{type: pendulum,", "{type: gymnasium, options: {path: ../envs, python: ../venv},"))
    keys = {**WALK, "env__options__kwargs": "{actions: box}"}
    for key in ("env__type", "env__options__path", "env__options__python"):
        del keys[key]
    ways = {"its folder": ("runs", "walk.yaml", {}), "above": (".", "runs/walk.yaml", {}), "elsewhere": ("/", config, {}),
            "--set": (".", config, dict(env__options__path="envs", env__options__python="venv"))}
    hashes = set()
    for name, (cwd, path, more) in ways.items():
        directory = scratch(f"from {name}")
        call("run", path, "--dir", directory, "--quiet", *sets(**keys, **more), cwd=os.path.join(project, cwd))
        call("eval", directory, "--episodes", "1", cwd="/")
        said = call("run", config, "--resume", directory, *sets(**keys), cwd="/").stderr
        check("has ended" in said, f"another config from {name}: {said}")
        hashes.add(result(directory)["param_hash"])
    check(len(hashes) == 1, f"paths: {hashes}")
    said = call("run", config, "--dir", scratch("refused"), *sets(**keys), "--set", "env.options.path=../envs",
                cwd=project, expect=None)
    check(said.returncode != 0 and "gymnasium_envs" in said.stderr, said.stderr)


def check_doctor():
    said = call("doctor", "--ranks", "1").stdout
    check("Gymnasium 1." in said or "has no Gymnasium: scripts/gymnasium" in said, said)


def check_default(scratch):
    """HEDDLE_PYTHON is the Python of a plug-in that has none beside it."""
    os.makedirs(scratch("plugins"))
    for pattern in ("heddle_*gymnasium*.so", "heddle_*.py"):
        for path in glob.glob(os.path.join(os.path.dirname(RUNNER), "plugins", pattern)):
            shutil.copy(path, scratch("plugins"))
    env = environment(HEDDLE_PLUGINS=scratch("plugins"))
    few = {**SHORT, "max_train_iter": 3}
    train(scratch("named"), config=CARTPOLE, env=dict(env, HEDDLE_PYTHON=os.path.join(PYTHON, "bin/python")), **few)
    said = call("run", CARTPOLE, "--dir", scratch("unnamed"), *sets(**few), env=dict(env, HEDDLE_PYTHON="/no/python"),
                expect=None)
    check(said.returncode != 0 and "/no/python" in said.stderr, said.stderr)


PER_RANK = """
import os
import gymnasium
import numpy as np

class Grows(gymnasium.Env):
    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3 + int(os.environ.get("RANK", "0")),), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
"""


def check_ranks(scratch):
    """Each rank asks its own Python, and ranks compare what they were told."""
    os.makedirs(scratch("modules"))
    with open(scratch("modules/per_rank.py"), "w", encoding="utf-8") as file:
        file.write(PER_RANK)
    keys = {**WALK, "env__env_id": "per_rank:Grows", "env__options__path": scratch("modules"),
            "env__options__max_episode_steps": 10}
    said = call("launch", "--nproc-per-node", "2", PPO, "--dir", scratch("ranks"), *sets(**keys), expect=2).stderr
    check("policy.model.obs_shape differs between rank 1" in said, said)


def main():
    with Scratch() as scratch:
        check_no_python(scratch)
        check_doctor()
        if not os.path.exists(os.path.join(PYTHON, "bin/python")):
            skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
        check_resumed(scratch, check_bits(scratch))
        check_waits(scratch)
        check_kinds(scratch)
        check_readme(scratch)
        check_bounds(scratch)
        check_sides(scratch)
        check_arguments(scratch)
        check_paths(scratch)
        check_default(scratch)
        check_ranks(scratch)


main()
