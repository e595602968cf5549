#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_dqn.py LEARN_JSON cartpole|pong > tests/golden/dqn_<…>.json

Writes the numbers that DI-engine's own classes gave for three DQN updates on CartPole (CFG-C) or Pong (CFG-A),
batch 4, deterministic fill of parameters and observations."""

import json
import sys

import golden


def flat(rows):
    return [x for row in rows for x in row]


def take_step(step):
    return {**{key: flat(step[key]) for key in ("q", "online_next_q", "target_next_q")},
            **{key: step[key] for key in ("total_loss", "q_value", "target_q_value", "squared_td")},
            **{key: list(step[key].values()) for key in ("grad", "params_after")}}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        recorded = json.load(file)[f"dqn_{sys.argv[2]}"]
    steps = recorded["steps"]
    title = {"cartpole": "CartPole", "pong": "Pong"}[sys.argv[2]]
    golden.write(f"DI-engine's numbers for three DQN updates on {title}", names=list(steps[0]["grad"]), steps=list(map(take_step, steps)),
                 q_after=flat(recorded["q_after"]))


main()
