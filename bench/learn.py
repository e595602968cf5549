# SPDX-License-Identifier: Apache-2.0
"""usage: bench/learn CONFIG [--ranks N] [--seeds 0,1,…|0-4] [--save] [OPTION …]

Trains CONFIG (a file, or the name of one in configs/) to its end, once per seed, and prints the learning
curve: env steps, updates, seconds since the start of the command, mean return of each evaluation. In the
end a line per seed: why it ended, wall-clock seconds from the start of the command to its end, env steps,
updates, returns of the last evaluation's episodes. --save appends a JSON line per run to
bench/results/learning.jsonl: commit, machine, command, all of the above and the mean return of training
episodes as it grew (`training`: [env steps, seconds, return], at most 60 of them). Other options go to
`runner`, such as --set runtime.workers=2.

bench/learn pong_ppo_fast --seeds 0-4 --save needs scripts/atari; pixel_pong_ppo_fast is its like without."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from machine import ROOT, commit, machine

POINTS = 60  # of a curve of training returns


def numbers(text):
    """The seeds of "0,1,7" or "0-4"."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def find(config):
    for path in (config, f"configs/{config}.yaml"):
        if os.path.exists(os.path.join(ROOT, path)):
            return path
    raise SystemExit(f"learn: there is no {config} and no configs/{config}.yaml")


def scalars(board, tag):
    return board.Scalars(tag) if tag in board.Tags()["scalars"] else []


def evaluations(board, begin):
    by_step = scalars(board, "evaluator_step/reward_mean")
    by_iter = scalars(board, "evaluator_iter/reward_mean")
    return [{"env_step": at.step, "train_iter": update.step, "wall_s": round(at.wall_time - begin, 1),
             "return": round(at.value, 3)} for at, update in zip(by_step, by_iter)]


def training(board, begin):
    """At equal distances, the last one among them."""
    points = scalars(board, "collector_step/reward_mean")[::-1]
    points = points[::-(-len(points) // POINTS) or 1][::-1]
    return [[at.step, round(at.wall_time - begin, 1), round(at.value, 2)] for at in points]


def train(options, seed, directory):
    command = (["build/runner", "launch", "--nproc-per-node", str(options.ranks)] if options.ranks > 1
               else ["build/runner", "run"])
    command += [find(options.config), "--seed", str(seed), *options.more]
    begin = time.time()
    subprocess.run([*command, "--dir", directory], cwd=ROOT, check=True)
    wall_s = time.time() - begin
    with open(os.path.join(directory, "result.json"), encoding="utf-8") as file:
        result = json.load(file)
    board = EventAccumulator(os.path.join(directory, "log/serial"), size_guidance={"scalars": 0})
    board.Reload()
    kept = ("reason", "env_step", "train_iter", "eval_value", "eval_value_raw", "param_hash",
            "fingerprint", "ranks")
    return {"command": " ".join(command), "seed": seed, "wall_s": round(wall_s, 1),
            **{key: result[key] for key in kept if key in result}, "commit": commit(),
            "machine": machine(), "date": time.strftime("%Y-%m-%d"),
            "curve": evaluations(board, begin), "training": training(board, begin)}


def summarise(runs):
    for run in runs:
        returns = " ".join(f"{value:g}" for value in run.get("eval_value_raw", []))
        print(f"seed {run['seed']:3d}: {run['reason']} in {run['wall_s']:.1f} s, {run['env_step']:.0f} env "
              f"steps, {run['train_iter']} updates, return {run['eval_value']} ({returns})")
    if len(runs) > 1:
        seconds = [run["wall_s"] for run in runs]
        solved = sum(run["reason"] == "solved" for run in runs)
        print(f"{solved} of {len(runs)} solved; {statistics.median(seconds):.1f} s "
              f"({min(seconds):.1f} to {max(seconds):.1f})")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("config")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--save", action="store_true")
    options, options.more = parser.parse_known_args()
    runs = []
    for seed in numbers(options.seeds):
        with tempfile.TemporaryDirectory(prefix="heddle-learn-") as scratch:
            runs.append(train(options, seed, os.path.join(scratch, "run")))
        for at in runs[-1]["curve"]:
            print(f"{at['env_step']:10d} env steps {at['train_iter']:8d} updates "
                  f"{at['wall_s']:8.1f} s   return {at['return']:7.2f}", flush=True)
        if options.save:
            with open(os.path.join(ROOT, "bench/results/learning.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(runs[-1]) + "\n")
    summarise(runs)


main()
