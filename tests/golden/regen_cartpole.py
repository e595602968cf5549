#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/cartpole_traces.h from recorded trajectories of gym 0.25.1's CartPole-v0.

Usage: regen_cartpole.py cartpole_traces.json > tests/golden/cartpole_traces.h

The recording holds, per trace, `seed`, `policy`, `steps` and `rows` of
[action, [x, x_dot, theta, theta_dot] as C99 hex doubles, done, truncated]; row 0 is the start.
Long traces keep their first 20 and last 5 rows; the actions in between follow from the policy.
"""
import json
import sys

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* Trajectories of gym 0.25.1's CartPole-v0, doubles to the bit. Written by regen_cartpole.py. */
#ifndef HD_TESTS_GOLDEN_CARTPOLE_TRACES_H
#define HD_TESTS_GOLDEN_CARTPOLE_TRACES_H

/* Actions: balance is [theta + theta_dot > 0], left is 0, random is floor(2 U(seed, t)) with the
 * fill of the fixtures (splitmix64 of (seed << 32) + t). */
enum cartpole_policy { BALANCE, LEFT, RANDOM };

/* After `step` steps; step 0 is the start. */
struct cartpole_row {
    int step, action;
    double state[4];
    int done, truncated;
};

struct cartpole_trace {
    unsigned seed;
    enum cartpole_policy policy;
    int steps, n_rows;
    const struct cartpole_row *rows;
};

/* clang-format off */"""

TAIL = """/* clang-format on */

#endif"""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        traces = json.load(file)["traces"]
    print(HEAD)
    heads = []
    for trace in traces:
        name = f"rows_{trace['policy']}_{trace['seed']}"
        rows, steps = trace["rows"], trace["steps"]
        # One row per step plus the start, unless the middle was left out.
        if len(rows) != steps + 1:
            assert len(rows) == 25, name
            numbers = list(range(20)) + list(range(steps - 4, steps + 1))
        else:
            numbers = range(steps + 1)
        print(f"static const struct cartpole_row {name}[] = {{")
        for number, (action, state, done, truncated) in zip(numbers, rows):
            action = -1 if action is None else action
            print(f"    {{{number}, {action}, {{{', '.join(state)}}}, {done}, {truncated}}},")
        print("};")
        heads.append(f"    {{{trace['seed']}, {trace['policy'].upper()}, {steps}, {len(rows)}, "
                     f"{name}}},")
    print("static const struct cartpole_trace cartpole_traces[] = {")
    print("\n".join(heads))
    print("};")
    print(TAIL)


main()
