#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run leaves, read by the packages that users read it with: events by tensorboard, weights by
safetensors, and the net's outputs recomputed by numpy."""

import csv
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, Scratch, call, check, skip, train  # noqa: E402

try:
    import numpy as np
    from safetensors.numpy import load_file, save_file
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

UPDATES = 300

LEARNER = ["cur_lr_avg", "total_loss_avg", "q_value_avg", "target_q_value_avg"]
COLLECTOR = ["episode_count", "envstep_count", "train_sample_count", "avg_envstep_per_episode",
             "avg_sample_per_episode", "avg_envstep_per_sec", "avg_train_sample_per_sec",
             "avg_episode_per_sec", "reward_mean", "reward_std", "reward_max", "reward_min",
             "total_envstep_count", "total_train_sample_count", "total_episode_count"]
EVALUATOR = ["episode_count", "envstep_count", "avg_envstep_per_episode", "evaluate_time",
             "avg_envstep_per_sec", "avg_time_per_episode", "reward_mean", "reward_std",
             "reward_max", "reward_min", "eval_episode_return_mean"]

SHAPES = [("encoder.init", 128, 4), ("encoder.main.0", 128, 128), ("encoder.main.2", 64, 128),
          ("head.A.0.0", 64, 64), ("head.A.1.0", 2, 64), ("head.V.0.0", 64, 64),
          ("head.V.1.0", 1, 64)]


def check_events(directory, outcome):
    board = EventAccumulator(os.path.join(directory, "log/serial"), size_guidance={"scalars": 0})
    board.Reload()
    found = set(board.Tags()["scalars"])
    expected = {f"{component}_{axis}/{name}"
                for component, names in (("learner", LEARNER), ("collector", COLLECTOR),
                                         ("evaluator", EVALUATOR))
                for name in names for axis in ("iter", "step")}
    expected.remove("collector_step/total_envstep_count")
    check(found == expected, f"tags missing {expected - found}, unexpected {found - expected}")

    losses = board.Scalars("learner_iter/total_loss_avg")
    check([event.step for event in losses] == [100, 200, 300], "learner tags stand at other updates")
    check(all(event.value > 0 for event in losses), "a loss is not positive")
    rates = board.Scalars("learner_step/cur_lr_avg")
    check(all(abs(event.value - 0.001) < 1e-9 for event in rates), "cur_lr is not the config's")
    last = board.Scalars("collector_iter/total_envstep_count")[-1]
    check((last.step, last.value) == (UPDATES, outcome["env_step"]), "total_envstep_count is wrong")
    evaluations = board.Scalars("evaluator_iter/eval_episode_return_mean")
    check([event.step for event in evaluations] == list(range(0, UPDATES, 40)),
          "evaluations stand at other updates")
    check(evaluations[-1].value == np.float32(outcome["eval_value"]), "the last evaluation is not the result's")


def check_csv(directory):
    """`runner report --csv` has all numbers that tensorboard shows over updates."""
    board = EventAccumulator(os.path.join(directory, "log/serial"), size_guidance={"scalars": 0})
    board.Reload()
    logged = {(tag.replace("_iter/", "/"), event.step): event.value
              for tag in board.Tags()["scalars"] if "_iter/" in tag for event in board.Scalars(tag)}
    text = call("report", directory, "--csv", "-").stdout
    rows = list(csv.DictReader(text.splitlines()))
    found = {(f"{row['component']}/{row['name']}", int(row["update"])): np.float32(row["value"]) for row in rows}
    check(len(rows) == len(found) and found == logged, f"other numbers: {sorted(found.items() ^ logged.items())[:6]}")
    steps = [int(row["env_step"]) for row in rows if row["name"] == "eval_episode_return_mean"]
    check(steps[0] == 0 and steps == sorted(set(steps)), f"env steps of evaluations: {steps}")
    file = os.path.join(directory, "all.csv")
    call("report", directory, "--csv", file)
    with open(file, encoding="utf-8") as written:
        check(written.read() == text, "the file differs from stdout")


def forward(weights, obs):
    def layer(name, x):
        return x @ weights[name + ".weight"].T.astype(np.float64) + weights[name + ".bias"]

    x = obs.astype(np.float64)
    for name in ("encoder.init", "encoder.main.0", "encoder.main.2"):
        x = np.maximum(layer(name, x), 0)
    a = layer("head.A.1.0", np.maximum(layer("head.A.0.0", x), 0))
    v = layer("head.V.1.0", np.maximum(layer("head.V.0.0", x), 0))
    return a - a.mean(axis=1, keepdims=True) + v


def check_weights(scratch, directory):
    path = os.path.join(directory, f"ckpt/iteration_{UPDATES}/policy.safetensors")
    weights = load_file(path)
    expected = {}
    for name, rows, columns in SHAPES:
        expected[name + ".weight"] = (rows, columns)
        expected[name + ".bias"] = (rows,)
    check({k: v.shape for k, v in weights.items()} == expected, "names or shapes of the weights")
    check(all(w.dtype == np.float32 for w in weights.values()), "weights are not float32")

    obs = np.random.default_rng(3).uniform(-1, 1, (37, 4)).astype(np.float32)
    # One more byte of name moves the data off alignment.
    save_file({"obs": obs}, scratch("obs.safetensors"), metadata={"x": "y" * 3})
    printed = call("eval", CONFIG, "--weights", path, "--obs", scratch("obs.safetensors")).stdout
    outputs = np.array([[float(word) for word in line.split(" ")]
                        for line in printed.splitlines()])
    wanted = forward(weights, obs)
    check(outputs.shape == wanted.shape, f"{outputs.shape} outputs for {wanted.shape}")
    error = np.abs(outputs - wanted).max() / max(1, np.abs(wanted).max())
    print(f"outputs of numpy and of runner differ by at most {error:.1e} of the largest")
    check(error < 1e-6, "the outputs are not numpy's")

    # Weights that Python wrote, in another order and through another library, are read alike.
    save_file(dict(reversed(list(weights.items()))), scratch("python.safetensors"))
    again = call("eval", CONFIG, "--weights", scratch("python.safetensors"), "--obs",
                 scratch("obs.safetensors")).stdout
    check(again == printed, "weights written by Python give other outputs")


def main():
    with Scratch() as scratch:
        directory = scratch("run")
        outcome = train(directory, ranks=2, env__stop_value="1e9", max_train_iter=UPDATES)
        check_events(directory, outcome)
        check_csv(directory)
        check_weights(scratch, directory)


main()
