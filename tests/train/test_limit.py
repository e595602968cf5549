#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that ends at a limit evaluates its last weights and names the best ones that it leaves, which `runner eval` and
heddle.load take. That is no part of the run: one that goes on beyond its limit has the bits, the best weights and the
logs of one that never stopped."""

import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, result, sets, train, wait_for_updates  # noqa: E402

KEYS = dict(env__stop_value="1e9", policy__eval__evaluator__eval_freq=150)
PIXELS = dict(config=os.path.join(ROOT, "configs/pixel_pong_ppo_fast.yaml"), max_train_iter=2, env__max_evaluator_step=40,
              env__n_evaluator_episode=3, env__evaluator_env_num=2, policy__collect__n_sample=192,
              policy__learn__batch_size=96, env__stop_value="1e9")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def list_evaluations(directory):
    """The log without the times of its lines and its rates."""
    text = read(os.path.join(directory, "log/evaluator/evaluator_logger.txt")).decode()
    return re.findall(r"EVALUATOR.*|train_iter +\| +[0-9.]+|reward_mean +\| +[0-9.]+", text)


def check_weights(directory, run):
    """What plays a directory takes the weights that it names, and returns what the run's evaluation did."""
    done = call("eval", directory, "--json")
    played = [episode["return"] for episode in json.loads(done.stdout)["episodes"]]
    check(played == run["last_value_raw"], f"eval: {played}, the run: {run['last_value_raw']}")
    check(run["weights"] in done.stderr and f"update {run['best_train_iter']}:" in done.stderr, done.stderr)


def check_goes_on(scratch):
    stopped = train(scratch("parts"), max_train_iter=400, **KEYS)
    check(stopped["last_value"] is not None and stopped["eval_train_iter"] == 300, f"{stopped}")
    check(stopped["best_value"] == max(stopped["last_value"], stopped["best_value"]), f"{stopped}")
    whole = train(scratch("whole"), max_train_iter=800, **KEYS)
    call("run", CONFIG, "--dir", scratch("parts"), "--resume", *sets(max_train_iter=800, **KEYS))
    with open(scratch("parts/result.json"), encoding="utf-8") as file:
        parts = json.load(file)
    same = ("param_hash", "eval_value_raw", "eval_train_iter", "last_value_raw", "best_value", "best_train_iter", "train_value",
            "weights")
    check([parts[key] for key in same] == [whole[key] for key in same], f"{parts}\n{whole}")
    for name in ("ckpt/best/policy.safetensors", "ckpt/iteration_800/policy.safetensors"):
        check(read(scratch(f"parts/{name}")) == read(scratch(f"whole/{name}")), f"{name} differs")
    logs = [list_evaluations(scratch(name)) for name in ("parts", "whole")]
    check(logs[0] == logs[1] and len(logs[0]) > 20, f"the logs of evaluations differ: {logs}")
    check("has ended (limit)" in call("run", "--resume", scratch("whole")).stderr, "the config of a run is not found")
    said = call("eval", scratch("nothing"), expect=2).stderr
    check("nothing: there is neither a run directory nor a file" in said, said)


def check_last(scratch):
    """The last weights are evaluated as at any other time: from the same seeds, on any number of ranks."""
    last = train(scratch("last"), max_train_iter=300, **{**KEYS, "policy__eval__evaluator__eval_freq": 1000})
    inside = train(scratch("inside"), max_train_iter=305, **KEYS)
    check(last["eval_train_iter"] == 0 and inside["eval_train_iter"] == 300, f"{last}\n{inside}")
    check(last["last_value_raw"] == inside["eval_value_raw"], f"{last}\n{inside}")
    check(last["weights"] == "ckpt/iteration_300/policy.safetensors" and last["best_train_iter"] == 300, f"{last}")
    check_weights(scratch("last"), last)
    two = train(scratch("two"), ranks=2, max_train_iter=300, **{**KEYS, "policy__eval__evaluator__eval_freq": 1000})
    check(two["last_value_raw"] == last["last_value_raw"], f"{two}")
    few = train(scratch("few"), ranks=2, world__shards=4, max_train_iter=20, env__evaluator_env_num=1,
                graph=os.path.join(ROOT, "configs/graphs/dqn_sharded_evaluation.yaml"), **KEYS)
    check(len(few["last_value_raw"]) == 5, f"no shard of rank 0 has an environment: {few}")
    pixels = [train(scratch(f"pixels{ranks}"), ranks=ranks, **PIXELS)["last_value_raw"] for ranks in (1, 2)]
    check(pixels[0] == pixels[1] and len(pixels[0]) == 3, f"{pixels}")


def check_untrained(scratch):
    """Weights of update 0 are not the best once others were evaluated, and then not before."""
    run = train(scratch("still"), max_train_iter=200, policy__learn__learning_rate=0, **KEYS)
    check(run["best_train_iter"] == 150 and run["weights"] == "ckpt/best/policy.safetensors", f"{run}")
    off = train(scratch("off"), max_train_iter=100, policy__eval__at_limit="false", **KEYS)
    check(off["last_value"] is None and off["best_train_iter"] == 0, f"{off}")
    said = call("eval", scratch("off")).stderr
    check("weights of update 0" in said and "WARN" not in said, said)
    said = call("eval", scratch("off"), "--set", "policy.eval.evaluator.eval_freq=50").stderr
    check("has weights of update 100 too" in said, said)


def check_signal(scratch):
    """What a run that a signal stopped says of itself is what its checkpoint has; the next part counts its own rates."""
    process = subprocess.Popen([RUNNER, "run", CONFIG, "--dir", scratch("stopped"), "--quiet",
                                *sets(max_train_iter=100000, **KEYS)], env=environment())
    wait_for_updates(process, scratch("stopped"), 300)
    process.send_signal(signal.SIGTERM)
    process.wait()
    stopped = result(scratch("stopped"))
    said = call("run", CONFIG, "--dir", scratch("stopped"), "--resume",
                *sets(max_train_iter=stopped["train_iter"], **KEYS)).stderr
    ended = result(scratch("stopped"))
    check(f"resuming from update {stopped['train_iter']}," in said, said)
    check(ended["train_iter"] - stopped["train_iter"] == 5 and ended["env_step"] - stopped["env_step"] == 32, f"{stopped}\n{ended}")
    seconds, rate = re.search(r"in ([0-9.]+) s: ([0-9]+) updates/s", said).groups()
    check(float(rate) * float(seconds) < 10, f"5 updates were made: {said}")
    first = re.search(r"first task after (-?[0-9]+) ms", said)
    check(first and int(first[1]) >= 0, said)


def main():
    with Scratch() as scratch:
        check_signal(scratch)
        check_goes_on(scratch)
        check_last(scratch)
        check_untrained(scratch)


main()
