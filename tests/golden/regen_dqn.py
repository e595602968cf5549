#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_dqn.py LEARN_JSON > dqn_cartpole.h

Writes the numbers that DI-engine's own classes gave for three DQN updates on CartPole (CFG-C, batch 4,
deterministic fill of parameters and observations) as a C header."""

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
        golden = json.load(file)["dqn_cartpole"]
    steps = golden["steps"]
    print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* DI-engine's numbers for three DQN updates on CartPole; made by tests/golden/regen_dqn.py. */
#ifndef HD_TESTS_GOLDEN_DQN_CARTPOLE_H
#define HD_TESTS_GOLDEN_DQN_CARTPOLE_H

enum {{ GOLDEN_BATCH = {golden['B']}, GOLDEN_ACTIONS = 2, GOLDEN_STEPS = {len(steps)},
       GOLDEN_TENSORS = {len(steps[0]['grad'])} }};

struct golden_tensor {{
    double l2, sum;
    int n_first;
    double first[4];
}};

struct golden_step {{
    double q[8], online_next_q[8], target_next_q[8];
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
    print(f"static const double golden_q_after[8] = {numbers(flat(golden['q_after']))};\n")
    print("#endif")


main()
