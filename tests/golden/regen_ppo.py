#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_ppo.py LEARN_JSON cartpole|pong > tests/golden/ppo_<…>.json

Writes the numbers that DI-engine's own classes gave for two PPO epochs on CartPole (CFG-D) or Pong (CFG-B), one
minibatch of 8 each: parameters and observations filled as docs/di-engine.md 9.1 says, the batch as 9.3 says. value_next
is of observation 8 before learning, running the statistics of returns after it; grad_norm is that before the clip."""

import json
import sys

import golden

# What the specification's tables (9.3) alone have: norm of each update's gradient, value of observation 8, and the
# weight of the running statistics.
ONLY_SPEC = {
    "cartpole": {"grad_norm": [0.65882367, 0.82986122], "value_next": -0.034567442, "count": 16.0001},
    "pong": {"grad_norm": [0.66390413, 0.83102852], "value_next": 0.065162718, "count": 16.0001},
}


def main():
    env = sys.argv[2]
    with open(sys.argv[1], encoding="utf-8") as file:
        recorded = json.load(file)[f"ppo_{env}"]
    title = {"cartpole": "CartPole", "pong": "Pong"}[env]
    only = ONLY_SPEC[env]
    outputs = {f"{what}_{when}": recorded[f"{what}_{when}"] for when in ("before", "after") for what in ("value", "logit")}
    golden.write(f"DI-engine's numbers for two PPO epochs on {title}", names=list(recorded["params_after"]), **outputs,
                 value_next=only["value_next"], running={**recorded["running"], "count": only["count"]},
                 updates=[{**numbers, "grad_norm": norm} for numbers, norm in zip(recorded["updates"], only["grad_norm"])],
                 params_after=list(recorded["params_after"].values()))


main()
