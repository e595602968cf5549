#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/atari_traces.json from recorded play of DI-engine's Atari wrappers.

Usage: regen_atari.py RECORDING > tests/golden/atari_traces.json

The recording holds, per trace, `game`, `mode` (train or eval), `key`, `actions` (names of the minimal action
set), `rows` of [action, reward, done, CRC-32 of the stack of 4 frames that the step returns] and `resets` of
[step, CRC-32 of the stack]. Actions follow from the key, so they are checked here and left out:
action t is floor(U(key, t) * actions) with the fill of docs/di-engine.md 9.1. Reset r begins with 1 + (7 r + key) mod 30
no-ops. After a done the env is reset, and the next action acts on the fresh observation.

Of the file, `crc` has what each action returned, `events` are the steps with a reward or an end, [step, reward, done],
and `resets` [step, CRC-32] are before action `step`; step 0 is the first action's.
"""
import json
import math
import sys

import golden


def take_trace(trace):
    rows, actions = trace["rows"], len(trace["actions"])
    for t, row in enumerate(rows):
        assert row[0] == math.floor(golden.fill(trace["key"], t) * actions), (trace["game"], t)
    return {"env_id": f"{trace['game'].capitalize()}NoFrameskip-v4", "evaluator": int(trace["mode"] == "eval"),
            "key": trace["key"], "actions": actions, "crc": [f"{row[3]:08x}" for row in rows],
            "events": [[t, reward, done] for t, (_, reward, done, _) in enumerate(rows) if reward or done],
            "resets": [[t, f"{crc:08x}"] for t, crc in trace["resets"]]}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        traces = json.load(file)["traces"]
    golden.write("play of DI-engine 0.5.3's Atari wrappers over ale-py 0.12.1", traces=list(map(take_trace, traces)))


main()
