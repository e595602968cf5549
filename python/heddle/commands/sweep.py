# SPDX-License-Identifier: Apache-2.0
"""heddle sweep: searches for the best values of keys."""

from __future__ import annotations

import argparse
import csv
import shlex
from pathlib import Path

from .. import campaign, program
from ..errors import Error
from ..training import find_config
from .options import Parser, read_sets
from .seeds import read_seeds

try:
    from .. import study
except ModuleNotFoundError as error:
    raise Error(f"heddle sweep needs the package {error.name}: pip install 'heddle[sweep]'") from None

ABOUT = """Searches for the best values of keys by Optuna. A trial is a run directory in DIR, or one for each of --seeds. A call
that was interrupted or killed goes on when it is repeated, also with more --trials. DIR/trials.csv lists all trials, and
DIR/study.db is the study, which optuna-dashboard shows.

space.yaml has a line for each key: choices, or a range, of whole numbers if both its ends are:

  policy.learn.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}
  policy.learn.batch_size: [32, 64, 128]
  policy.collect.n_sample: {low: 128, high: 1024, step: 128}
"""
SHOWN = 10


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="heddle sweep", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_run_options("trials")
    parser.add_argument("--space", type=Path, required=True, metavar="FILE", help="the keys and what they may be")
    parser.add_argument("--trials", type=int, default=40, metavar="N", help="trials in all (default 40)")
    parser.add_argument("--metric", choices=("last", "best", "train"), default="last",
                        help="the return to look for: of the last evaluation (default), of the best one, or of the training "
                        "episodes of the last tenth")
    parser.add_argument("--seeds", default="0", help="seeds of each trial, whose mean counts (default 0)")
    parser.add_argument("--sampler", choices=study.SAMPLERS, default="tpe", help="default tpe")
    parser.add_argument("--sampler-seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--pruner", choices=study.PRUNERS, default="median",
                        help="what ends a trial early, by the evaluations of its first run (default median)")
    return parser


def build_plan(options: argparse.Namespace) -> study.Plan:
    config = find_config(options.config)
    return study.Plan(options.dir or Path(f"{config.stem}_sweep"), config, read_sets(options.set), read_seeds(options.seeds),
                      study.read_space(options.space), options.trials, options.metric, options.sampler, options.pruner,
                      options.sampler_seed)


def check_plan(plan: study.Plan) -> None:
    """Reads the run file with the ends of the space, and writes what the search is into its folder."""
    for corner in study.list_corners(plan.space):
        program.run(["graph", str(plan.config), "--allow-plugin", *program.build_sets({**plan.keys, **corner})])
    campaign.take_manifest(plan.folder, "sweep.json", {
        "config": str(plan.config.resolve()), "set": plan.keys, "seeds": list(plan.seeds), "metric": plan.metric,
        "space": {key: repr(part) for key, part in plan.space.items()}, "sampler": plan.sampler, "pruner": plan.pruner,
        "sampler_seed": plan.sampler_seed, "trials": plan.trials}, extends=("trials",))


def write_trials(plan: study.Plan, search: study.Search) -> None:
    with open(plan.folder / "trials.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", "state", "return", *plan.space])
        for trial in search.study.trials:
            writer.writerow([trial.number, trial.state.name.lower(), "" if trial.value is None else trial.value,
                             *(trial.params.get(key, "") for key in plan.space)])


def print_best(plan: study.Plan, search: study.Search) -> None:
    trials = study.rank(search.study)
    if not trials:
        raise Error("no trial has a return")
    names = [key.rpartition(".")[2] for key in plan.space]
    print("  ".join(f"{title:>14}" for title in ["trial", "return", *names]))
    for trial in trials[:SHOWN]:
        values = [trial.number, study.format_value(trial.value), *(study.format_value(trial.params[key]) for key in plan.space)]
        print("  ".join(f"{value:>14}" for value in values))
    best = program.build_sets({**plan.keys, **trials[0].params})
    print("\nthe best again: heddle run", shlex.join([str(plan.config), *best]))


def main(arguments: list[str]) -> int:
    plan_options = build_parser().parse_args(arguments)
    plan = build_plan(plan_options)
    check_plan(plan)
    search = study.Search(plan, plan_options.jobs)
    try:
        search.run()
    finally:
        write_trials(plan, search)
    print_best(plan, search)
    return 0
