#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_ppo.py LEARN_JSON cartpole|pong | clang-format > ppo_<…>.h

Writes the numbers that DI-engine's own classes gave for two PPO epochs on CartPole (CFG-D) or Pong (CFG-B), one
minibatch of 8 each, deterministic fill of parameters and observations, as a C header."""

import json
import sys

# What the specification's tables (9.3) alone have: norm of each update's gradient, value of observation 8, and the
# weight of the running statistics.
ONLY_SPEC = {
    "cartpole": {"grad_norm": [0.65882367, 0.82986122], "value_next": -0.034567442, "count": 16.0001},
    "pong": {"grad_norm": [0.66390413, 0.83102852], "value_next": 0.065162718, "count": 16.0001},
}


def numbers(values):
    return "{" + ", ".join(f"{v:.17g}" for v in values) + "}"


def flat(rows):
    return [x for row in rows for x in row]


def array(name, values):
    print(f"static const double {name}[{len(values)}] = {numbers(values)};")


def update(numbers_of, grad_norm):
    fields = {**numbers_of, "grad_norm": grad_norm}
    return "{" + ", ".join(f".{key} = {value:.17g}" for key, value in fields.items()) + "}"


def tensor(name, entry):
    first = (entry["first"] + [0.0] * 4)[:4]
    return (f'        {{"{name}", {entry["l2"]:.17g}, {entry["sum"]:.17g}, {len(entry["first"])}, '
            f"{numbers(first)}}},")


def main():
    env = sys.argv[2]
    with open(sys.argv[1], encoding="utf-8") as file:
        golden = json.load(file)[f"ppo_{env}"]
    title = {"cartpole": "CartPole", "pong": "Pong"}[env]
    guard = f"HD_TESTS_GOLDEN_PPO_{env.upper()}_H"
    name = f"golden_ppo_{env}"
    only = ONLY_SPEC[env]
    print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* DI-engine's numbers for two PPO epochs on {title}; made by tests/golden/regen_ppo.py. */
#ifndef {guard}
#define {guard}

#include "tests/golden/ppo.h"
""")
    for when in ("before", "after"):
        array(f"{name}_value_{when}", golden[f"value_{when}"])
        array(f"{name}_logit_{when}", flat(golden[f"logit_{when}"]))
    print(f"""
static const struct golden_ppo {name} = {{
    .batch = {golden['N']},
    .actions = {len(golden['logit_before'][0])},
    .tensors = {len(golden['params_after'])},
    .value_before = {name}_value_before,
    .logit_before = {name}_logit_before,
    .value_after = {name}_value_after,
    .logit_after = {name}_logit_after,
    .value_next = {only['value_next']:.17g},
    .running_mean = {golden['running']['mean']:.17g},
    .running_std = {golden['running']['std']:.17g},
    .running_count = {only['count']:.17g},
    .update = {{""")
    for fields, norm in zip(golden["updates"], only["grad_norm"]):
        print(f"        {update(fields, norm)},")
    print("    },\n    .params_after = {")
    for key, entry in golden["params_after"].items():
        print(tensor(key, entry))
    print("    },\n};\n\n#endif")


main()
