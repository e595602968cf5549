#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_dqn.py LEARN_JSON cartpole|pong | clang-format > dqn_<…>.h

Writes the numbers that DI-engine's own classes gave for three DQN updates on CartPole (CFG-C) or Pong (CFG-A),
batch 4, deterministic fill of parameters and observations, as a C header."""

import json
import sys


def numbers(values):
    return "{" + ", ".join(f"{v:.17g}" for v in values) + "}"


def flat(rows):
    return [x for row in rows for x in row]


def tensors(name, entries):
    lines = [f"        .{name} = {{"]
    for tensor in entries.values():
        first = (tensor["first"] + [0.0] * 4)[:4]
        lines.append(f"            {{{tensor['l2']:.17g}, {tensor['sum']:.17g}, "
                     f"{len(tensor['first'])}, {numbers(first)}}},")
    return "\n".join(lines + ["        },"])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        golden = json.load(file)[f"dqn_{sys.argv[2]}"]
    steps = golden["steps"]
    title = {"cartpole": "CartPole", "pong": "Pong"}[sys.argv[2]]
    guard = f"HD_TESTS_GOLDEN_DQN_{sys.argv[2].upper()}_H"
    actions = len(steps[0]["q"][0])
    matrix = golden["B"] * actions
    print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* DI-engine's numbers for three DQN updates on {title}; made by tests/golden/regen_dqn.py. */
#ifndef {guard}
#define {guard}

enum {{ GOLDEN_BATCH = {golden['B']}, GOLDEN_ACTIONS = {actions}, GOLDEN_STEPS = {len(steps)},
       GOLDEN_TENSORS = {len(steps[0]['grad'])} }};

struct golden_tensor {{
    double l2, sum;
    int n_first;
    double first[4];
}};

struct golden_step {{
    double q[{matrix}], online_next_q[{matrix}], target_next_q[{matrix}];
    double total_loss, q_value, target_q_value, squared_td[4];
    struct golden_tensor grad[GOLDEN_TENSORS], params_after[GOLDEN_TENSORS];
}};

static const char *const golden_names[GOLDEN_TENSORS] = {{""")
    for name in steps[0]["grad"]:
        print(f'    "{name}",')
    print("};\n\nstatic const struct golden_step golden_steps[GOLDEN_STEPS] = {")
    for step in steps:
        print("    {")
        for key in ("q", "online_next_q", "target_next_q"):
            print(f"        .{key} = {numbers(flat(step[key]))},")
        for key in ("total_loss", "q_value", "target_q_value"):
            print(f"        .{key} = {step[key]:.17g},")
        print(f"        .squared_td = {numbers(step['squared_td'])},")
        print(tensors("grad", step["grad"]))
        print(tensors("params_after", step["params_after"]))
        print("    },")
    print("};\n")
    print(f"static const double golden_q_after[{matrix}] = {numbers(flat(golden['q_after']))};\n")
    print("#endif")


main()
