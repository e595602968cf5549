#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The statistics of runner compare --group-by against rliable, the package of the paper that they are from (Agarwal et
al. 2021). Those of the runs as they are agree to rounding. Bounds of intervals are quantiles of 2,000 draws: the share of
rliable's draws that is below a bound has to be what it should be, but for chance."""

import json
import math
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import Scratch, call, check, skip, write_run  # noqa: E402

try:
    import numpy as np
    from rliable import library, metrics
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

DRAWS = 2000  # rliable's, as many as ours
ERRORS = 4.5  # standard errors that chance may make: one bound of 100,000 is beyond


def draw_groups():
    """Returns of runs: many, with ties, skewed, few."""
    rng = np.random.default_rng(5)
    return {"many": rng.normal(100, 15, 40), "ties": np.round(rng.normal(110, 15, 25), -1),
            "skewed": rng.exponential(60, 11), "few": rng.normal(90, 40, 5), "three": np.array([70.0, 95.0, 140.0])}


def compare(scratch, groups):
    dirs = []
    for name, values in groups.items():
        for seed, value in enumerate(values):
            dirs.append(scratch(f"{name}{seed}"))
            write_run(dirs[-1], {"seed": seed, "setting": name}, last_value=float(value))
    return json.loads(call("compare", *dirs, "--group-by", "setting", "--json").stdout)["grouping"]


def check_interval(interval, value, drawn, about):
    """Each bound is the quantile at p of 2,000 draws. Beside it lie the quantiles of rliable's draws at p and ERRORS
    standard errors of p, sqrt(p (1 - p) (1 / 2000 + 1 / DRAWS)), in both directions, however draws are distributed."""
    check(math.isclose(interval["value"], value, rel_tol=1e-12), f"{about}: {interval['value']}, not {value}")
    for bound, p in (("low", 0.025), ("high", 0.975)):
        error = ERRORS * math.sqrt(p * (1 - p) * (1 / 2000 + 1 / DRAWS))
        below, above = np.quantile(drawn, [p - error, p + error])
        slack = 1e-12 * abs(value)  # sums in another order
        check(below - slack <= interval[bound] <= above + slack,
              f"{about}: {bound} {interval[bound]}, not within [{below}, {above}]")


def check_alone(values, group, about):
    scores = values[:, None]  # runs x tasks
    for name, statistic in (("mean", metrics.aggregate_mean), ("iqm", metrics.aggregate_iqm)):
        draws = library.StratifiedBootstrap(scores, random_state=np.random.RandomState(1))
        drawn = draws.apply(lambda drawn: np.array([statistic(drawn)]), DRAWS)[:, 0]
        check_interval(group["last"][name], statistic(scores), drawn, f"{name} of {about}")


def check_improvement(x, y, interval, about):
    draws = library.StratifiedIndependentBootstrap(x[:, None], y[:, None], random_state=np.random.RandomState(2))
    drawn = draws.apply(lambda *sides: np.array([metrics.probability_of_improvement(*sides)]), DRAWS)[:, 0]
    check_interval(interval, metrics.probability_of_improvement(x[:, None], y[:, None]), drawn, f"improvement of {about}")


def check_profiles(groups, grouping):
    every = np.concatenate(list(groups.values()))
    thresholds = grouping["thresholds"]
    check(thresholds[0] == every.min() and math.isclose(thresholds[-1], every.max()), "the ends of profiles")
    some = range(0, len(thresholds), 9)

    def share(scores):
        return np.array([library.run_score_deviation(scores, thresholds[i]) for i in some])

    for (name, values), group in zip(groups.items(), grouping["groups"]):
        scores = values[:, None]
        drawn = library.StratifiedBootstrap(scores, random_state=np.random.RandomState(3)).apply(share, DRAWS)
        for i, value, column in zip(some, share(scores), drawn.T):
            check_interval(group["profile"][i], value, column, f"profile of {name} at {thresholds[i]}")


def main():
    warnings.simplefilter("ignore", FutureWarning)  # arch's, of how rliable calls it
    groups = draw_groups()
    with Scratch() as scratch:
        grouping = compare(scratch, groups)
    first = groups["many"]
    for (name, values), group in zip(groups.items(), grouping["groups"]):
        check(group["values"] == [name] and group["last"]["n"] == len(values), f"group {name}: {group['values']}")
        check_alone(values, group, name)
        if name != "many":
            check_improvement(values, first, group["improvement"], name)
    check_profiles(groups, grouping)


main()
