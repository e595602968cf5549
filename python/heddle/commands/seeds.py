# SPDX-License-Identifier: Apache-2.0
"""heddle seeds: the same training with several seeds, and with each of several settings."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import campaign, program
from ..errors import Error, InputError
from ..training import find_config
from .options import Parser, read_sets


def read_seeds(text: str) -> list[int]:
    """Seeds of a list such as 0-4,7."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            seeds += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise InputError(f"--seeds: expected numbers and ranges such as 0-4,7, found {text!r}") from None
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: expected seeds that differ, found {text!r}")
    return seeds


def read_variations(texts: list[str]) -> dict[str, list[str]]:
    """{key: [value, ...]} of KEY=VALUE,VALUE,...; values are separated by commas outside of brackets."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        found[key] = split(values)
        if not equals or not all(found[key]):
            raise InputError(f"--vary: expected KEY=VALUE,VALUE,..., found {text!r}")
    return found


def split(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def name_run(seed: int, setting: Mapping[str, str]) -> str:
    """The name of a run directory, in which each key is shortened to its last part."""
    parts = [f"{key.rpartition('.')[2]}={value}".replace("/", "_") for key, value in setting.items()]
    return ",".join([*parts, f"seed={seed}"])


def list_jobs(folder: Path, config: Path, seeds: list[int], variations: Mapping[str, list[str]],
              sets: Mapping[str, Any]) -> list[campaign.Job]:
    """Seed by seed, so that all settings have the same number of runs early."""
    settings = [dict(zip(variations, values)) for values in itertools.product(*variations.values())]
    return [campaign.Job(folder / name_run(seed, setting), config, {**sets, **setting, "seed": seed})
            for seed in seeds for setting in settings]


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="heddle seeds", description="Trains a run file, or a preset, with each seed, and with each of "
                    "the settings that --vary makes; then compares them. Runs are directories in DIR. A call that was "
                    "interrupted or killed goes on when it is repeated, also with more seeds or settings.")
    parser.add_run_options("runs")
    parser.add_argument("--seeds", default="0-4", help="numbers and ranges (default 0-4)")
    parser.add_argument("--vary", metavar="KEY=A,B", action="append", default=[],
                        help="train with each of the values; several keys: with all combinations")
    return parser


def main(arguments: list[str]) -> int:
    options = build_parser().parse_args(arguments)
    config = find_config(options.config)
    seeds, variations, sets = read_seeds(options.seeds), read_variations(options.vary), read_sets(options.set)
    folder = options.dir or Path(f"{config.stem}_seeds")
    jobs = list_jobs(folder, config, seeds, variations, sets)
    if len({job.directory for job in jobs}) < len(jobs):
        raise InputError("--vary: two settings have the same name")
    for job in jobs[:len(jobs) // len(seeds)]:  # one of each setting
        program.run(["graph", str(config), "--allow-plugin", *program.build_sets(job.keys)])
    campaign.take_manifest(folder, "seeds.json", {"config": str(config.resolve()), "set": sets, "seeds": seeds,
                                                  "vary": variations}, extends=("seeds", "vary"))
    failed = campaign.run_all(jobs, options.jobs)
    compared = [str(job.directory) for job in jobs if job not in failed]
    if len(compared) > 1:
        groups = ",".join(variations) or "exp_name"  # which all have in common
        print(program.run(["compare", *compared, "--group-by", groups, "--out", str(folder / "compare.html")]), end="")
    if failed:
        raise Error(f"{len(failed)} of {len(jobs)} runs failed; the same command tries them again")
    return 0
