#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/cartpole_traces.json from recorded trajectories of gym 0.25.1's CartPole-v0.

Usage: regen_cartpole.py RECORDING > tests/golden/cartpole_traces.json

The recording holds, per trace, `seed`, `policy`, `steps` and `rows` of
[action, [x, x_dot, theta, theta_dot] as C99 hex doubles, done, truncated]; row 0 is the start.
Long traces keep their first 20 and last 5 rows; the actions in between follow from the policy: balance is
[theta + theta_dot > 0], left is 0, random is floor(2 U(seed, t)) with the fill of docs/di-engine.md 9.1. Row `step` is
after so many steps, and its action led there.
"""
import json
import sys

import golden


def make_rows(trace):
    rows, steps = trace["rows"], trace["steps"]
    # One row per step plus the start, unless the middle was left out.
    numbers = range(steps + 1)
    if len(rows) != steps + 1:
        assert len(rows) == 25, trace["seed"]
        numbers = [*range(20), *range(steps - 4, steps + 1)]
    return [{"step": number, "action": -1 if action is None else action, "state": list(map(float.fromhex, state)),
             "done": done, "truncated": truncated} for number, (action, state, done, truncated) in zip(numbers, rows)]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        traces = json.load(file)["traces"]
    golden.write("trajectories of gym 0.25.1's CartPole-v0",
                 traces=[{**{key: trace[key] for key in ("seed", "policy", "steps")}, "rows": make_rows(trace)}
                         for trace in traces])


main()
