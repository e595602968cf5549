#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""policy.eval.video_every: every k-th evaluation leaves a video of its first episode, the same file from one rank, two
ranks and a run that was killed and goes on, while parameters and logs are those of a run without videos."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from events import events, only  # noqa: E402
from runner import CONFIG, ROOT, Scratch, call, check, result, sets, train  # noqa: E402
from test_resume import kill_all, latest, start, wait_for_checkpoint  # noqa: E402

EVERY = {"policy__eval__video_every": 3}
GRAPHS = {  # and their evaluations, which read other values and run in the background
    "ppo_fast": {"config": os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml"), "graph": "graphs/ppo_fast.yaml",
                 "strategy__eval_lag": 1, "max_env_step": 12000, "env__stop_value": 1e9, "policy__eval__evaluator__eval_freq": 1,
                 "policy__collect__normalize_obs": "true"},
    "dqn_sharded_evaluation": {"config": CONFIG, "graph": "graphs/dqn_sharded_evaluation.yaml", "max_train_iter": 200},
}


def videos(directory):
    folder, found = os.path.join(directory, "video"), {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".tmp"):  # a kill between the two calls that give a file its name
            continue
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def logged(directory):
    return events(only(os.path.join(directory, "log/serial")))


def check_bits(scratch):
    plain = train(scratch("plain"))
    check(not os.path.exists(scratch("plain/video")), "videos that nobody asked for")
    filmed = train(scratch("one"), **EVERY)
    check(filmed["param_hash"] == plain["param_hash"], f"{filmed['param_hash']}, not {plain['param_hash']}")
    found = videos(scratch("one"))
    check(list(found) == [f"iteration_{n}.gif" for n in (0, 120, 240, 360, 480)], f"every third of 40 updates: {list(found)}")
    check(all(data[:6] == b"GIF89a" and data[-1:] == b";" for data in found.values()), "no GIFs")
    train(scratch("two"), ranks=2, **EVERY)
    check(videos(scratch("two")) == found, "two ranks make other videos")
    with open(scratch("one/report.html"), encoding="utf-8") as file:
        check(file.read().count("R0lGODlh") == 5, "the report shows other videos")
    call("eval", CONFIG, "--weights", scratch("one/ckpt/iteration_560/policy.safetensors"), "--episodes", "1", "--video",
         scratch("again.gif"))
    train(scratch("last"), **dict(EVERY, policy__eval__video_every=1))
    with open(scratch("again.gif"), "rb") as file:
        check(videos(scratch("last"))["iteration_560.gif"] == file.read(), "not what eval shows of these weights")
    return filmed["param_hash"], found


def check_resume(scratch, expected, found):
    """Killed again and again, at some moment after a checkpoint; in the end it is the run that nobody touched."""
    directory, kills, keys = scratch("killed"), 0, dict(EVERY, runtime__checkpoint_interval_s=0.02)
    for delay in (0, 0.02, 0.04, 0.08, 0.16):
        before, process = latest(directory), start(directory, 1, CONFIG, keys, "--resume")
        wait_for_checkpoint(directory, process, before)
        time.sleep(delay)
        if process.poll() is not None:
            break
        kill_all(process)
        kills += 1
    check(kills > 0, "the run ended before it was killed")
    train(directory, "--resume", **keys)
    check(result(directory)["param_hash"] == expected, "other bits after kills")
    check(videos(directory) == found, f"other videos after {kills} kills: {list(videos(directory))}")


def check_failure(scratch):
    """A video that cannot be made costs a warning."""
    blocked = scratch("blocked")
    train(blocked, max_train_iter=40, **EVERY)
    os.mkdir(os.path.join(blocked, "video/iteration_120.gif"))
    said = call("run", CONFIG, "--resume", blocked, *sets(**EVERY)).stderr
    check("no video of" in said and "iteration_120.safetensors could be made" in said, said)
    check(os.path.isfile(os.path.join(blocked, "video/iteration_240.gif")), "the others are not made")


def check_graphs(scratch):
    for name, keys in GRAPHS.items():
        plain = train(scratch(name), **keys)
        filmed = train(scratch(name + "_filmed"), **keys, policy__eval__video_every=1)
        check(filmed["param_hash"] == plain["param_hash"], f"{name}: {filmed['param_hash']}, not {plain['param_hash']}")
        check(logged(scratch(name)) == logged(scratch(name + "_filmed")), f"{name}: other logs")
        check(len(videos(scratch(name + "_filmed"))) >= 2, f"{name}: {list(videos(scratch(name + '_filmed')))}")


def main():
    with Scratch() as scratch:
        expected, found = check_bits(scratch)
        check_resume(scratch, expected, found)
        check_failure(scratch)
        check_graphs(scratch)


main()
