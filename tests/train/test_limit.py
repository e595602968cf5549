#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that ends at a limit evaluates its last weights and names the best ones that it leaves, which `runner eval` and
heddle.load take. That is no part of the run: one that goes on beyond its limit, from the very step that ended it, has
the bits, the best weights and the logs of one that never stopped. result.json names the key of the limit."""

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


SMALL = dict(env__stop_value="1e9", policy__eval__evaluator__eval_freq=20)
LAGGED = os.path.join(ROOT, "configs/strategies/pipelined.yaml")
# Run file, the key that ends the first part, its value, keys of both parts, their ranks.
STOPS = [
    ("cartpole_dqn_ddp", "env.stop_value", "9", dict(SMALL, max_train_iter=137), (1, 1)),
    ("cartpole_dqn_ddp", "max_train_iter", "33", dict(SMALL, max_train_iter=90, world__shards=4), (2, 4)),
    ("cartpole_dqn_priority", "max_env_step", "100", dict(SMALL, max_train_iter=90), (1, 2)),
    ("cartpole_dqn_ddp", "env.stop_value", "9", dict(SMALL, max_train_iter=137, strategy=LAGGED, world__shards=2), (2, 1)),
    ("cartpole_ppo_ddp", "max_train_iter", "30", dict(SMALL, max_train_iter=100), (2, 2)),
    ("cartpole_ppo_ddp", "env.stop_value", "9", dict(SMALL, max_train_iter=100, strategy=LAGGED, world__shards=2), (1, 2)),
    ("cartpole_a2c_ddp", "env.stop_value", "9", dict(SMALL, max_train_iter=50), (1, 1)),
    ("pendulum_sac", "max_env_step", "150", dict(SMALL, max_train_iter=120, policy__random_collect_size=20), (1, 1)),
    ("cartpole_bc_ddp", "policy.learn.train_epoch", "2", dict(SMALL, max_train_iter=60), (2, 1)),
    ("cartpole_bc_ddp", "env.stop_value", "9", dict(SMALL, max_train_iter=60), (1, 2)),
]


def check_same(directories, same):
    """Results, weights and logs of evaluations of two runs."""
    a, b = (result(directory) for directory in directories)
    check([a[key] for key in same] == [b[key] for key in same], f"{a}\n{b}")
    for name in ("ckpt/best/policy.safetensors", f"ckpt/iteration_{b['train_iter']}/policy.safetensors"):
        check(read(f"{directories[0]}/{name}") == read(f"{directories[1]}/{name}"), f"{name} differs")
    logs = [list_evaluations(directory) for directory in directories]
    check(logs[0] == logs[1] and len(logs[0]) > 5, f"the logs of evaluations differ: {logs}")


def check_stop_steps(scratch):
    """A run that any stop step ended goes on from there, once the limit is raised, and repeats nothing."""
    call("record", CONFIG, "--weights", scratch("parts/ckpt/best/policy.safetensors"), "--transitions", "1000", "--epsilon", "0.3",
         "--out", scratch("demos"), "--quiet")
    for number, (config, key, value, keys, ranks) in enumerate(STOPS):
        path = os.path.join(ROOT, f"configs/{config}.yaml")
        if "_bc_" in config:
            keys = dict(keys, policy__collect__data_path=scratch("demos"))
        parts, whole = scratch(f"parts{number}"), scratch(f"whole{number}")
        stopped = train(parts, config=path, ranks=ranks[0], **{**keys, key.replace(".", "__"): value})
        reason = "solved" if key == "env.stop_value" else "limit"
        check(stopped["reason"] == reason and stopped["detail"] == key, f"{config}: {stopped}")
        done = call("launch", "--nproc-per-node", str(ranks[1]), path, "--dir", parts, "--resume", *sets(**keys))
        check(f"resuming from update {stopped['train_iter']}," in done.stderr, f"{config}, {key}: {done.stderr}")
        ended = train(whole, config=path, **keys)
        check(ended["reason"] == "limit" and ended["detail"] == "max_train_iter" and ended["train_iter"] > stopped["train_iter"],
              f"{config}: {ended}")
        check_same((parts, whole), ("param_hash", "env_step", "train_iter", "eval_value_raw", "eval_train_iter", "last_value_raw",
                                    "best_value", "best_train_iter", "train_value", "weights", "reason", "detail"))


def check_goes_on(scratch):
    stopped = train(scratch("parts"), max_train_iter=400, **KEYS)
    check(stopped["last_value"] is not None and stopped["eval_train_iter"] == 300, f"{stopped}")
    check(stopped["best_value"] == max(stopped["last_value"], stopped["best_value"]), f"{stopped}")
    whole = train(scratch("whole"), max_train_iter=800, **KEYS)
    call("run", CONFIG, "--dir", scratch("parts"), "--resume", *sets(max_train_iter=800, **KEYS))
    check(whole["train_iter"] == 800, f"{whole}")
    check_same((scratch("parts"), scratch("whole")), ("param_hash", "eval_value_raw", "eval_train_iter", "last_value_raw", "best_value",
                                                      "best_train_iter", "train_value", "weights"))
    check("has ended (limit)" in call("run", "--resume", scratch("whole")).stderr, "the config of a run is not found")
    said = call("eval", scratch("nothing"), expect=2).stderr
    check("nothing: there is neither a run directory nor a file" in said, said)


def check_last(scratch):
    """The last weights are evaluated as at any other time: from the same seeds, on any number of ranks, also where
    environments play several episodes."""
    more = dict(env__n_evaluator_episode=12)
    last = train(scratch("last"), max_train_iter=300, **{**KEYS, **more, "policy__eval__evaluator__eval_freq": 1000})
    inside = train(scratch("inside"), max_train_iter=305, **KEYS, **more)
    check(last["eval_train_iter"] == 0 and inside["eval_train_iter"] == 300, f"{last}\n{inside}")
    check(last["last_value_raw"] == inside["eval_value_raw"], f"{last}\n{inside}")
    check(last["weights"] == "ckpt/iteration_300/policy.safetensors" and last["best_train_iter"] == 300, f"{last}")
    check_weights(scratch("last"), last)
    two = train(scratch("two"), ranks=2, max_train_iter=300, **{**KEYS, **more, "policy__eval__evaluator__eval_freq": 1000})
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
        check_stop_steps(scratch)
        check_last(scratch)
        check_untrained(scratch)


main()
