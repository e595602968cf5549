# SPDX-License-Identifier: Apache-2.0
"""usage: bench/learn CONFIG [--ranks N] [--seeds 0,1,…] [--save] [OPTION …]

Trains CONFIG to its end, once per seed, and prints the learning curve: env steps, updates, seconds since
the start of the command, mean return of each evaluation. --save appends a JSON line per run to
bench/results/learning.jsonl: commit, machine, command, curve. Other options go to `runner`."""

import argparse
import json
import os
import subprocess
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from machine import ROOT, commit, machine


def curve(directory, begin):
    board = EventAccumulator(os.path.join(directory, "log/serial"), size_guidance={"scalars": 0})
    board.Reload()
    by_step = board.Scalars("evaluator_step/reward_mean")
    by_iter = board.Scalars("evaluator_iter/reward_mean")
    return [{"env_step": at.step, "train_iter": update.step, "wall_s": round(at.wall_time - begin, 1),
             "return": at.value} for at, update in zip(by_step, by_iter)]


def train(options, seed, directory):
    command = (["build/runner", "launch", "--nproc-per-node", str(options.ranks)] if options.ranks > 1
               else ["build/runner", "run"])
    command += [options.config, "--seed", str(seed), *options.more]
    begin = time.time()
    subprocess.run([*command, "--dir", directory], cwd=ROOT, check=True)
    wall_s = time.time() - begin
    with open(os.path.join(directory, "result.json"), encoding="utf-8") as file:
        result = json.load(file)
    kept = ("reason", "env_step", "train_iter", "eval_value", "param_hash", "fingerprint", "ranks")
    return {"command": " ".join(command), "seed": seed, "wall_s": round(wall_s, 1),
            **{key: result[key] for key in kept}, "commit": commit(), "machine": machine(),
            "date": time.strftime("%Y-%m-%d"), "curve": curve(directory, begin)}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("config")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--save", action="store_true")
    options, options.more = parser.parse_known_args()
    for seed in options.seeds.split(","):
        with tempfile.TemporaryDirectory(prefix="heddle-learn-") as scratch:
            run = train(options, int(seed), os.path.join(scratch, "run"))
        for at in run["curve"]:
            print(f"{at['env_step']:10d} env steps {at['train_iter']:8d} updates "
                  f"{at['wall_s']:8.1f} s   return {at['return']:7.2f}")
        if options.save:
            with open(os.path.join(ROOT, "bench/results/learning.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")


main()
