#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner compare --group-by, on runs that are made up: which runs are put together and count, what is told of runs that
are no repeats, and that text and JSON say the same. Whether the numbers are right is for tests/interop/test_intervals.py
and tests/runner/stats."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import Scratch, call, check, write_run  # noqa: E402

# rate, seed, last return; rates are in no order
RUNS = [(0.1, 0, 10), (0.02, 0, 30), (0.1, 1, 20), (0.02, 1, 50), (0.5, 0, 7)]


def write_runs(scratch):
    dirs = []
    for rate, seed, value in RUNS:
        dirs.append(scratch(f"rate{rate}_seed{seed}"))
        write_run(dirs[-1], {"exp_name": f"r{rate}s{seed}", "seed": seed, "rate": rate, "batch": 8}, last_value=value,
                  best_value=value + 1, train_value=value / 2, param_hash=f"{rate}{seed}")
    return dirs


def compare(scratch, dirs, *options):
    """What is said as JSON, and as text with what is beside it."""
    done = call("compare", *dirs, *options, "--out", scratch("page.html"))
    return json.loads(call("compare", *dirs, *options, "--json", cwd=scratch.path).stdout), done.stdout, done.stderr


def check_groups(scratch, dirs):
    found, text, warnings = compare(scratch, dirs, "--group-by", "rate")
    check(not os.path.exists(scratch("compare.html")), "--json writes a page that nobody asked for")
    check([run["dir"] for run in found["runs"]] == dirs and
          [run["seed"] for run in found["runs"]] == ["0", "0", "1", "1", "0"], f"runs: {found['runs']}")
    grouping = found["grouping"]
    check(grouping["keys"] == ["rate"] and grouping["resamples"] == 2000 and grouping["confidence"] == 0.95, f"{grouping}")
    groups = grouping["groups"]
    check([group["values"] for group in groups] == [["0.1"], ["0.02"], ["0.5"]], "order of groups")
    check([group["runs"] for group in groups] == [[0, 2], [1, 3], [4]], "members")
    check([group["last"]["mean"]["value"] for group in groups] == [15, 40, 7], "means")
    check([group["best"]["max"] for group in groups] == [21, 51, 8] and groups[1]["train"]["mean"]["value"] == 20,
          "best and in training")
    check(groups[0]["last"]["mean"] == {"value": 15, "low": 10, "high": 20}, f"interval of two: {groups[0]['last']}")
    check(groups[2]["last"]["mean"] == {"value": 7, "low": None, "high": None}, "one run has no interval")
    check(groups[0]["improvement"] is None and groups[1]["improvement"] == {"value": 1, "low": 1, "high": 1} and
          groups[2]["improvement"] == {"value": 0, "low": None, "high": None}, "improvement")
    thresholds = grouping["thresholds"]
    check(len(thresholds) == 101 and thresholds[0] == 7 and thresholds[-1] == 50, "thresholds")
    for group in groups:
        values = [RUNS[i][2] for i in group["runs"]]
        check([point["value"] for point in group["profile"]] ==
              [sum(value > at for value in values) / len(values) for at in thresholds], "profile")
    rows = {line.split()[0]: line for line in text.splitlines()[2:6]}
    check("15 [10, 20]" in rows["0.1"] and "40 [30, 50]" in rows["0.02"] and "7 -" in rows["0.5"], text)
    check("warning" not in warnings and "differ" not in text, f"these are repeats: {text}{warnings}")


def check_what_does_not_count(scratch, dirs):
    write_run(scratch("killed"), {"seed": 2, "rate": 0.1, "batch": 8})
    write_run(scratch("stopped"), {"seed": 3, "rate": 0.1, "batch": 8}, last_value=99, reason="stopped")
    write_run(scratch("failed"), {"seed": 4, "rate": 0.3, "batch": 8}, last_value=99, reason="failed")
    write_run(scratch("unseen"), {"seed": 5, "rate": 0.1, "batch": 8}, train_value=99)
    more = [scratch(name) for name in ("killed", "stopped", "failed", "unseen")]
    found, text, warnings = compare(scratch, dirs + more, "--group-by", "rate")
    groups = found["grouping"]["groups"]
    check(groups[0]["runs"] == [0, 2] and [i for i, _ in groups[0]["left_out"]] == [5, 6, 8], f"{groups[0]}")
    check(groups[3]["values"] == ["0.3"] and groups[3]["last"]["n"] == 0 and
          groups[3]["last"]["mean"]["value"] is None and groups[3]["improvement"]["value"] is None, f"{groups[3]}")
    for path, why in zip(more, ("not ended", "stopped", "failed", "no evaluation")):
        check(any(path in line and why in line for line in warnings.splitlines()), f"{path}: {warnings}")
    check("99" not in text, "a run that does not count is counted")


def check_no_repeats(scratch, dirs):
    write_run(scratch("large"), {"seed": 2, "rate": 0.1, "batch": 16}, last_value=15, param_hash="x")
    write_run(scratch("twin"), {"seed": 2, "rate": 0.1, "batch": 16}, last_value=15, param_hash="x")
    both = dirs + [scratch("large"), scratch("twin")]
    found, text, warnings = compare(scratch, both, "--group-by", "rate")
    check(found["grouping"]["differences"] == [["batch", ["8", "16"], ["8"], ["8"]]], f"{found['grouping']}")
    check("batch: 8 or 16 | 8 | 8" in text and "batch" in warnings and "no repeats" in warnings, text + warnings)
    check(found["grouping"]["groups"][0]["repeated"] == [[6, 5]] and "twin" in warnings, warnings)
    for options in (["--group-by", "rate,batch"], ["--group-by", "rate", "--group-by=batch"]):
        found, text, warnings = compare(scratch, both, *options)
        check([group["values"] for group in found["grouping"]["groups"]] ==
              [["0.1", "8"], ["0.02", "8"], ["0.5", "8"], ["0.1", "16"]] and "no repeats" not in warnings, warnings)


def check_mistakes(scratch, dirs):
    for key, words in {"rat": ["rat", "'rate'"], "": ["''"], "rate,": ["''"], "nothing.like.it": ["nothing.like.it"],
                       ",".join(17 * ["rate"]): ["16"]}.items():
        message = call("compare", *dirs, "--group-by", key, expect=2, cwd=scratch.path).stderr
        check(all(word in message for word in words) and len(message.splitlines()) == 1, f"{key}: {message}")
    message = call("compare", *dirs, *18 * ["--group-by", "rate"], expect=2).stderr
    check("8 --group-by" in message, message)
    check(not os.path.exists(scratch("compare.html")), "a page of a mistake")


def check_ungrouped(scratch, dirs):
    found, text, _ = compare(scratch, dirs[:2])
    check(found["grouping"] is None and found["differences"] == [["rate", "0.1", "0.02"]], f"{found}")
    check([run["last"] for run in found["runs"]] == [10, 30] and "rate: 0.1 | 0.02" in text, text)


def main():
    with Scratch() as scratch:
        dirs = write_runs(scratch)
        check_groups(scratch, dirs)
        check_what_does_not_count(scratch, dirs)
        check_no_repeats(scratch, dirs)
        check_mistakes(scratch, dirs)
        check_ungrouped(scratch, dirs)


main()
