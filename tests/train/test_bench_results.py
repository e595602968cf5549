#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runner bench says of results that are made up: ratios of pairs, when nothing is claimed, what counts as one
comparison, equal bits, goals that were not reached, and a machine that was disturbed."""

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from results import write_results  # noqa: E402
from runner import Scratch, call, check  # noqa: E402

# A slow machine in turn 3, which hits both alike.
SERIAL = [100, 101, 50, 99, 100, 102]
FASTER = [1.030, 1.035, 1.028, 1.040, 1.025, 1.028]


def bench(scratch, runs, *options, expect=0, name="results.jsonl"):
    write_results(scratch(name), runs)
    return call("bench", scratch(name), *options, expect=expect)


def rates(candidate, values, **more):
    return [dict(candidate=candidate, turn=turn, updates_per_s=value, **more) for turn, value in enumerate(values, 1)]


def goals(candidate, seconds, **more):
    """Seconds of each seed; None: it did not get there."""
    return [dict(candidate=candidate, case="bench_goal", turn=seed + 1, seed=seed, seconds=value or 99, env_steps=10 * (value or 99),
                 updates=value or 99, reached=value is not None, reason="solved" if value else "limit",
                 param_hash=f"{seed:016x}", **more) for seed, value in enumerate(seconds)]


def check_claims(scratch):
    bucketed = rates("bucketed", [a * b for a, b in zip(SERIAL, FASTER)])
    said = bench(scratch, rates("serial", SERIAL) + bucketed).stdout
    mean = 100 * (math.exp(sum(map(math.log, FASTER)) / 6) - 1)
    claim = next(line for line in said.splitlines() if line.startswith("bucketed is faster than serial by"))
    check(claim.startswith(f"bucketed is faster than serial by {mean:.1f} % ("), claim)
    low, high = map(float, claim.split("(")[1].rstrip(")").split(" to "))
    check(2.5 <= low < mean < high <= 4.0, claim)
    check("too narrow" not in said and "disturbed" not in said, said)
    # The same numbers, in pairs of other turns: nothing can be seen.
    mixed = rates("bucketed", [a * b for a, b in zip(SERIAL[3:] + SERIAL[:3], FASTER)])
    said = bench(scratch, rates("serial", SERIAL) + mixed).stdout
    check("no difference seen between the updates/s of bucketed and serial" in said and "faster" not in said, said)
    slower = rates("bucketed", [a / b for a, b in zip(SERIAL, FASTER)])
    check("bucketed is slower than serial by 3.0 % (" in bench(scratch, rates("serial", SERIAL) + slower).stdout, "slower")


def check_few(scratch):
    said = bench(scratch, rates("serial", [100]) + rates("bucketed", [200])).stdout
    check("Nothing is claimed" in said and "faster" not in said and "100 -" in said and "200 -" in said, said)
    said = bench(scratch, rates("serial", [100, 101]) + rates("bucketed", [200, 201])).stdout
    check("is faster than" in said and "too narrow" in said, said)
    # Each in a call of its own: no turns in common.
    said = bench(scratch, rates("serial", SERIAL) + rates("bucketed", SERIAL, call=2)).stdout
    check("Nothing is claimed" in said and "no difference" not in said, said)


def check_selection(scratch):
    """Two calls are one comparison, unless something between them differs."""
    first = rates("serial", SERIAL) + rates("bucketed", SERIAL)
    again = rates("serial", SERIAL[:2], call=2) + rates("bucketed", SERIAL[:2], call=2)
    done = bench(scratch, first + again)
    check(sum(line.split()[:3] in (["serial", "0", "8"], ["bucketed", "0", "8"]) for line in done.stdout.splitlines()) == 2 and
          "left out" not in done.stderr, done.stdout + done.stderr)
    for key, value, words in (("commit", "abc", "another commit"), ("machine", "M", "another machine"),
                              ("base_hash", "1", "another config"), ("updates", 7, "other --updates"), ("ranks", 3, "other --ranks")):
        done = bench(scratch, first + [dict(run, **{key: value}) for run in again])
        check(f"12 earlier results are left out, because of {words}" in done.stderr, f"{key}: {done.stderr}")
        check("serial       0     2" in done.stdout, f"{key}: {done.stdout}")
    # The strategy file of one of them has changed.
    done = bench(scratch, first + [dict(run, config_hash="1") if run["candidate"] == "bucketed" else run for run in again])
    check("6 earlier results are left out, because of another strategy file" in done.stderr, done.stderr)
    # Rates and goals are of one comparison, and shown one after another.
    said = bench(scratch, first + goals("serial", [5, 6])).stdout
    check("updates/s" in said and "to the goal" in said and "8 of" not in said, said)


def check_bits(scratch):
    same = rates("serial", SERIAL) + rates("bucketed", SERIAL)
    bench(scratch, same)
    done = bench(scratch, same[:-1] + [dict(same[-1], param_hash="f" * 16)], expect=4)
    check("turn 6 of 'bucketed' ended in the parameters ffffffffffffffff, but turn 1 of 'serial'" in done.stderr, done.stderr)
    other = [dict(run, param_hash="f" * 16, bits_hash="2") for run in rates("pipelined", SERIAL, lag=1)]
    done = bench(scratch, same + other)
    check("may need more updates" in done.stdout, done.stdout)
    seeds = goals("serial", [5, 6]) + goals("bucketed", [5, 6])
    bench(scratch, seeds)
    bench(scratch, seeds[:-1] + [dict(seeds[-1], param_hash="f" * 16)], expect=4)


def check_other_programs(scratch):
    """What they leave out is not known."""
    less = {key: None for key in ("busy", "exposed", "idle", "env_steps_per_s", "verbs", "load")}
    said = bench(scratch, rates("serial", SERIAL) + rates("ddp", SERIAL, bits_hash="2", **less)).stdout
    row = next(line for line in said.splitlines() if line.startswith("ddp "))
    check(row.split()[3:] == ["92", "[75,", "101]", "-", "-", "-", "-", "2", "a" * 16], f"{row.split()}")
    check("no difference seen between the updates/s of ddp and serial: 0.0 % (0.0 to 0.0)" in said, said)


def check_goals(scratch):
    serial, lagged = [10, 20, 30, 40, 50, 60, 70, None], [9, 18, 27, 36, 45, 54, None, None]
    said = bench(scratch, goals("serial", serial) + goals("pipelined", lagged, bits_hash="2")).stdout
    lines = said.splitlines()
    check(any(line.startswith("serial ") and "40 [" in line and line.endswith("7 of 8, not by seed 7 (limit)") for line in lines), said)
    check(any(line.startswith("pipelined ") and line.endswith("6 of 8, not by seed 6 (limit), 7 (limit)") for line in lines), said)
    check("pipelined takes less time to the goal than serial by 10.0 % (10.0 to 10.0)" in said and
          "pipelined needs fewer env steps to the goal than serial by 10.0 %" in said, said)
    check("too narrow" not in said, said)
    said = bench(scratch, goals("serial", [10, 20, 30, None, None, None])).stdout
    check("too narrow" in said, said)
    # Of a seed that ran twice the newest run counts.
    said = bench(scratch, goals("serial", [10, 20]) + goals("serial", [30, None], call=2)).stdout
    check("30 -" in said and "1 of 2" in said, said)


def check_disturbed(scratch):
    quiet, busy = {"load": [0.1, 0.1], "mhz": [3000, 3000], "cpus": 2, "others": 0.02, "stolen": 0.001}, \
        {"load": [3, 3], "mhz": [3000, 2400], "cpus": 2, "others": 1.25, "stolen": 0.04}
    said = bench(scratch, rates("serial", SERIAL, load=quiet) + rates("bucketed", SERIAL[:5], load=quiet) +
                 [dict(rates("bucketed", SERIAL, load=busy)[5])]).stdout
    check("disturbed: bucketed, 1 of 6 runs, others on 1.2 CPUs, 4 % stolen, 2400 MHz in place of 3000" in said and
          "disturbed: serial" not in said, said)


def check_mistakes(scratch):
    for text, words in (("[]", ":1: no line of JSON: no object"), ('{"case": ', ":1: no line of JSON"),
                        ('{"case": "other"}', "there is no result of runner bench")):
        with open(scratch("bad.jsonl"), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        check(words in call("bench", scratch("bad.jsonl"), expect=2).stderr, text)
    run = rates("serial", [100])[0]
    for key in ("updates_per_s", "param_hash", "turn"):
        done = bench(scratch, [dict(run, **{key: None})], expect=2)
        check(f":1: a result of runner bench without a valid '{key}'" in done.stderr, done.stderr)
    check("nothing is measured" in bench(scratch, [run], "--strategies", "serial", expect=2).stderr, "options")
    check("cannot be read" in call("bench", scratch("missing.jsonl"), expect=2).stderr, "a missing file")


def main():
    with Scratch() as scratch:
        check_claims(scratch)
        check_few(scratch)
        check_selection(scratch)
        check_bits(scratch)
        check_other_programs(scratch)
        check_goals(scratch)
        check_disturbed(scratch)
        check_mistakes(scratch)


main()
