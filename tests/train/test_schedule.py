#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules (policy.learn.schedule): a run has CleanRL's rates, the same bits on any ranks and after a kill in the middle,
and keeps the total with which it began; what the run file has wrong is told at its place. The formulas themselves are in
tests/tasks/learn/test_schedule.c."""

import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import runner  # noqa: E402
from events import events, only  # noqa: E402
from runner import ROOT, Scratch, call, check, environment, sets, train  # noqa: E402
from ways import check_ways  # noqa: E402

LEARN = "policy__learn__"
S = LEARN + "schedule__"
LINEAR, COSINE = "{type: linear, end: 0}", "{type: cosine, end: 0.01}"
# Ten collects of 64 steps of each of two shards.
PPO = dict(config=os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml"), world__shards=2, env__stop_value="1e9",
           max_env_step=1280, policy__collect__n_sample=64, policy__collect__segment_at_done="false",
           policy__learn__batch_size=16, policy__learn__epoch_per_collect=2, policy__eval__evaluator__eval_freq=1000,
           policy__learn__learning_rate=3e-4)
ALL = {**PPO, S + "learning_rate": LINEAR, S + "clip_ratio": COSINE,
       S + "entropy_weight": "{type: piecewise, points: [[0.5, 0.1], [0.5, 0]]}"}
FAST = dict(ALL, graph=os.path.join(ROOT, "configs/graphs/ppo_fast.yaml"))
ALONE = dict(ALL, graph=os.path.join(ROOT, "configs/graphs/ppo_nosync.yaml"))
WAYS = [dict(ranks=2), dict(runtime__executor="sequential"),
        dict(ranks=2, runtime__max_inflight_iterations=4, strategy__bucket_mb=0.02)]
DQN = dict(env__stop_value="1e9", max_env_step=2000, world__shards=2)
SHARDED = [dict(ranks=2, strategy__shard_optimizer_above_mb=0), dict(ranks=2, strategy__shard_optimizer_above_mb=1000)]
LAGS = dict(strategy__policy_lag=1, strategy__eval_lag=1)


def read_curve(directory, tag):
    """The numbers of a TensorBoard file, which are floats."""
    pattern = re.compile(re.escape(tag.encode()) + b"\x15(.{4})", re.S)
    found = [pattern.search(event) for event in events(only(os.path.join(directory, "log/serial")))]
    return [struct.unpack("<f", match[1])[0] for match in found if match]


def to_float(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def write_graph(scratch, name, **changes):
    """A graph that logs after each iteration."""
    with open(os.path.join(ROOT, f"configs/graphs/{name}.yaml"), encoding="utf-8") as file:
        text = file.read()
    for old, new in {"every: 100 update": "every: 1 update", **changes}.items():
        check(old in text, f"{name} has no {old}")
        text = text.replace(old, new)
    with open(scratch("graph.yaml"), "w", encoding="utf-8") as file:
        file.write(text)
    return scratch("graph.yaml")


def check_rates(scratch):
    """Iteration k of N has (1 - (k - 1) / N) lr, also where the count is of updates, where it is learned a collect later,
    and, as in Stable-Baselines3, (1 - k / N) lr where the step stands behind the collect."""
    graph = write_graph(scratch, "ppo")
    cleanrl = [to_float((1 - k / 10) * 3e-4) for k in range(10)]
    ways = {"steps": {S + "learning_rate": LINEAR},
            "updates": {S + "learning_rate": LINEAR, S + "over": "update", "max_train_iter": 80},
            "lags": {S + "learning_rate": LINEAR, **LAGS}}
    for name, keys in ways.items():
        train(scratch(name), **{**PPO, "graph": graph, **keys})
        for tag in ("learner_step/learning_rate", "learner_step/cur_lr_avg"):
            found = read_curve(scratch(name), tag)
            if tag.endswith("learning_rate"):
                check(found == cleanrl, f"{name}: {tag}: {found}, not {cleanrl}")
            check(len(found) == 10 and found == sorted(found, reverse=True), f"{name}: {tag}: {found}")
    step = "  - compute_schedule: {reads: [totals], updates: [schedule]}\n"
    behind = "  - sum:       {reads: [counters], writes: [totals]}\n"
    graph = write_graph(scratch, "ppo", **{step: "", behind: behind + step})
    train(scratch("behind"), **{**PPO, "graph": graph, S + "learning_rate": LINEAR})
    found = read_curve(scratch("behind"), "learner_step/learning_rate")
    check(found == [to_float((1 - (k + 1) / 10) * 3e-4) for k in range(10)], f"behind: {found}")


def check_bits(scratch):
    hashes = [check_ways(scratch, "all", ALL, WAYS), check_ways(scratch, "alone", ALONE, WAYS[:1]),
              check_ways(scratch, "lagging", dict(FAST, **LAGS), WAYS[:2]),
              train(scratch("constant"), **PPO)["param_hash"]]
    hashes += [check_ways(scratch, "dqn", dict(DQN, **{S + "learning_rate": LINEAR}), SHARDED),
               train(scratch("constant dqn"), **DQN)["param_hash"]]
    check(len(set(hashes)) == len(hashes), f"a schedule changed nothing: {hashes}")


def check_kill(scratch):
    keys = {k: v for k, v in ALL.items() if k != "config"}
    directory = scratch("killed")
    command = [runner.RUNNER, "run", ALL["config"], "--dir", directory, "--quiet",
               *sets(**dict(keys, max_env_step=10**9, runtime__checkpoint_interval_s=0.02)), "--set",
               "policy.learn.schedule.total=12800"]
    process = subprocess.Popen(command, env=environment(), start_new_session=True)
    while not os.path.lexists(os.path.join(directory, "ckpt/state/latest")):
        check(process.poll() is None, "the run ended by itself")
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    more = dict(keys, max_env_step=12800, policy__learn__schedule__total=12800)
    hashes = [train(scratch("unkilled"), config=ALL["config"], **more)["param_hash"],
              train(directory, "--resume", config=ALL["config"], **more)["param_hash"]]
    check(hashes[0] == hashes[1], f"after a kill: {hashes}")


def check_limit(scratch):
    """A run that goes on to another limit keeps its total, a new one has the new limit."""
    directory = scratch("longer")
    train(directory, **ALL)
    done = call("run", ALL["config"], "--dir", directory, "--resume",
                *sets(**{k: v for k, v in dict(ALL, max_env_step=2560).items() if k != "config"}))
    check("policy.learn.schedule.total stays 1280, the limit with which the run began" in done.stderr, done.stderr)
    with open(os.path.join(directory, "total_config.yaml"), encoding="utf-8") as file:
        check("total: 1280 " in file.read(), "total_config.yaml lost the total")
    hashes = [runner.result(directory)["param_hash"],
              train(scratch("total"), **dict(ALL, max_env_step=2560), policy__learn__schedule__total=1280)["param_hash"],
              train(scratch("other"), **dict(ALL, max_env_step=2560))["param_hash"]]
    check(hashes[0] == hashes[1] != hashes[2], f"another limit: {hashes}")
    keys = {k: v for k, v in dict(ALL, policy__learn__schedule__total=1000).items() if k != "config"}
    said = call("run", ALL["config"], "--dir", directory, "--resume", *sets(**keys), expect=2).stderr
    check("policy.learn.schedule.total: 1280 in its total_config.yaml, 1000 now" in said, said)


def check_report(scratch):
    call("report", scratch("steps"), "--out", scratch("page.html"))
    with open(scratch("page.html"), encoding="utf-8") as file:
        check('"learning_rate"' in file.read(), "the report does not show the rate")


# What is wrong, run file, keys, and what is said with its place.
MISTAKES = [
    ("cartpole_ppo_ddp", ["max_env_step=9", S + "learning_rate={type: linear}"],
     "--set:2:37: policy.learn.schedule.learning_rate needs its field end"),
    ("cartpole_ppo_ddp", ["max_env_step=9", S + "clip_ratio.type=line"],
     "clip_ratio.type: expected linear, cosine or piecewise, found line"),
    ("cartpole_ppo_ddp", ["max_env_step=9", S + "clip_ratio={type: linear, end: x}"],
     "--set:2:54: policy.learn.schedule.clip_ratio.end: expected a number in [0, 1e+06], found x"),
    ("cartpole_dqn_ddp", [S + "learning_rate=" + LINEAR, S + "over=update"],
     "policy.learn.schedule.total: auto is the limit max_train_iter, which the run does not have"),
    ("cartpole_ppo_ddp", ["max_env_step=9", "graph=graphs/ppo_fast.yaml", LEARN + "lr_scheduler__type=kl",
                          S + "learning_rate=" + LINEAR], "leave one of them out"),
    ("cartpole_ppo_ddp", [S + "total=0"], "policy.learn.schedule.total: expected an integer in [1, "),
]


def check_mistakes():
    for name, given, expected in MISTAKES:
        words = [word for text in given for word in ("--set", text.replace("__", "."))]
        said = call("run", os.path.join(ROOT, f"configs/{name}.yaml"), "--dir", "/dev/null/no", *words, expect=2).stderr
        check(expected in said, f"{name} {given}: {said}")
    said = call("graph", os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml"), "--set",
                "policy.learn.schedule.learning_rate=" + LINEAR, "--set", "max_env_step=9").stdout
    check("compute_schedule" in said, said)


def main():
    check_mistakes()
    with Scratch() as scratch:
        check_rates(scratch)
        check_report(scratch)
        check_bits(scratch)
        check_kill(scratch)
        check_limit(scratch)


main()
