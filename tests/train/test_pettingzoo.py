#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parallel environments of PettingZoo, from end to end: runs of one shared policy end in the same bits on ranks and
workers of any number, after a stop and after a kill; they evaluate, are drawn, and tell mistakes at their place."""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, result, sets, skip, train  # noqa: E402
from ways import check_ways  # noqa: E402

PYTHON = os.path.join(ROOT, "build/plugins/gymnasium")
PENDULUM = os.path.join(ROOT, "configs/pendulum_ppo.yaml")
SHARDED = os.path.join(ROOT, "configs/graphs/dqn_sharded_evaluation.yaml")
COMMON = {"env__type": "gymnasium", "env__options__python": PYTHON, "env__stop_value": "1e9", "world__shards": 4,
          "env__evaluator_env_num": 2, "env__n_evaluator_episode": 3}
WALKERS = {**COMMON, "env__env_id": "gymnasium_envs:Walkers", "policy__model__obs_shape": 3,
           "env__options__path": os.path.join(ROOT, "tests/kernels/envs"), "env__options__max_episode_steps": 40,
           "env__options__kwargs": "{length: 30}", "env__collector_env_num": 6}
DQN = {**WALKERS, "policy__model__action_shape": 4, "max_train_iter": 300, "policy__eval__evaluator__eval_freq": 100}
MULTIWALKER = {**COMMON, "env__env_id": "pettingzoo.sisl.multiwalker_v9:parallel_env", "policy__model__obs_shape": 31,
               "policy__model__action_shape": 4, "env__options__max_episode_steps": 60, "env__collector_env_num": 6,
               "policy__collect__n_sample": 96, "policy__collect__env_groups": 2, "max_train_iter": 40,
               "policy__eval__evaluator__eval_freq": 20}


def check_resumed(scratch, wanted):
    """A run that was stopped and one that was killed go on to the same bits, on another number of ranks."""
    for save in ("actions", "pickle"):
        keys = {**DQN, "env__options__save": save}
        train(scratch(save), **{**keys, "max_train_iter": 140})
        call("launch", "--nproc-per-node", "2", CONFIG, "--dir", scratch(save), "--resume",
             *sets(**keys))
        check(result(scratch(save))["param_hash"] == wanted, f"a resumed run (save: {save}) ends elsewhere")
    keys = {**DQN, "runtime__checkpoint_interval_s": 0.2}
    run = subprocess.Popen([RUNNER, "run", CONFIG, "--dir", scratch("killed"), "--quiet",
                            *sets(**{**keys, "max_train_iter": 10**9})], env=environment())
    until = time.monotonic() + 60
    while not os.path.isdir(scratch("killed/ckpt")) or not os.listdir(scratch("killed/ckpt")):
        check(time.monotonic() < until and run.poll() is None, "there is no checkpoint")
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    call("run", CONFIG, "--dir", scratch("killed"), "--resume", *sets(**keys))
    found = result(scratch("killed"))
    check(found["param_hash"] == wanted, f"a run that was killed ends in {found}, not {wanted}")


def check_seen(scratch, directory):
    """An episode of an evaluation is one of the parallel environment, whose return is the mean over its agents."""
    keys = {**DQN, "env__options__render": "true"}
    weights = os.path.join(directory, "ckpt/best/policy.safetensors")
    said = call("eval", CONFIG, "--weights", weights, "--json", "--episodes", "3", "--video", scratch("v.gif"),
                *sets(**keys)).stdout
    episodes = json.loads(said)["episodes"]
    check([e["length"] for e in episodes] == [30] * 3 and len({e["return"] for e in episodes}) == 3, said)
    check(os.path.getsize(scratch("v.gif")) > 100, "no video")
    cut = json.loads(call("eval", CONFIG, "--weights", weights, "--json", "--episodes", "2",
                          *sets(**DQN, env__max_evaluator_step=7)).stdout)["episodes"]
    check([(e["length"], e["cut"]) for e in cut] == [(7, True)] * 2, f"{cut}")


def check_mistakes(scratch):
    declared = {"env__options__obs_shape": 3, "env__options__actions": 4}
    for keys, words in (
            ({"env__collector_env_num": 8}, "a multiple of 3 "),
            ({"env__options__agents": 2}, "env.options.agents is 2"),
            ({"env__options__kwargs": "{differ: actions}"}, "Discrete(4) of walker_0"),
            ({"env__env_id": "gymnasium_envs:Turns"}, "parallel_env"),
            ({"env__options__wrappers": "[FlattenObservation]"}, "FlattenObservation")):
        said = call("run", CONFIG, "--dir", scratch("no"), *sets(**{**DQN, **keys}), expect=2).stderr
        check(words in said and "--set:" in said, said)
    for number, (keys, words) in enumerate((
            ({**declared}, "obs_shape [3], actions [4], agents 3"),
            ({"env__options__kwargs": "{dies: 4}"}, "step 4 from seed"),
            ({"env__options__kwargs": "{dies: 4}"}, "env.options.black_death"),
            ({"env__options__kwargs": "{fail_at: 3}"}, "gymnasium_envs:Walkers: envs 0 to 2, step 3 from seed"))):
        said = call("run", CONFIG, "--dir", scratch(f"no-{number}"), *sets(**{**DQN, **keys}), expect=1).stderr
        check(words in said, said)
    # What is declared needs no Python.
    call("graph", CONFIG, *sets(**{**DQN, **declared, "env__options__agents": 3}))
    said = call("graph", CONFIG, *sets(**{**DQN, **declared, "env__options__agents": 4}), expect=2).stderr
    check("multiple of 4" in said, said)


def main():
    if not os.path.exists(os.path.join(PYTHON, "bin/python")):
        skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
    with Scratch() as scratch:
        check_mistakes(scratch)
        ways = [dict(env__options__worker=2), dict(ranks=2, env__options__worker=9), dict(ranks=4),
                dict(env__options__save="pickle"), dict(runtime__executor="sequential"),
                dict(graph=SHARDED), dict(graph=SHARDED, ranks=2)]
        wanted = check_ways(scratch, "dqn", dict(DQN, config=CONFIG), ways)
        check(len(result(scratch("dqn"))["eval_value_raw"]) == 3, "an episode is one of the parallel environment")
        check_resumed(scratch, wanted)
        check_seen(scratch, scratch("dqn"))
        check_ways(scratch, "black death", {**DQN, "config": CONFIG, "env__options__kwargs": "{dies: 4}",
                                            "env__options__black_death": "true", "max_train_iter": 100}, [dict(ranks=2)])
        if not os.path.isdir(os.path.join(PYTHON, "lib")) or subprocess.run(
                [os.path.join(PYTHON, "bin/python"), "-c", "import pettingzoo"], check=False).returncode != 0:
            skip("this Python has no PettingZoo: scripts/gymnasium has to be run again")
        wanted = check_ways(scratch, "multiwalker", dict(MULTIWALKER, config=PENDULUM), [dict(ranks=4, env__options__worker=2)])
        train(scratch("stopped"), config=PENDULUM, **{**MULTIWALKER, "max_train_iter": 20})
        call("run", PENDULUM, "--dir", scratch("stopped"), "--resume", *sets(**MULTIWALKER))
        check(result(scratch("stopped"))["param_hash"] == wanted, "a resumed run of multiwalker ends elsewhere")


main()
