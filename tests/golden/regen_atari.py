#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/atari_traces.h from recorded play of DI-engine's Atari wrappers.

Usage: regen_atari.py atari_traces.json > tests/golden/atari_traces.h

The recording holds, per trace, `game`, `mode` (train or eval), `key`, `actions` (names of the minimal action
set), `rows` of [action, reward, done, CRC-32 of the stack of 4 frames that the step returns] and `resets` of
[step, CRC-32 of the stack]. Actions follow from the key, so they are checked here and left out.
"""
import json
import math
import sys

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* Play of DI-engine 0.5.3's Atari wrappers over ale-py 0.12.1. Written by regen_atari.py. */
#ifndef HD_TESTS_GOLDEN_ATARI_TRACES_H
#define HD_TESTS_GOLDEN_ATARI_TRACES_H

#include <stdint.h>

/* Action t is floor(U(key, t) * actions), with the fill of the fixtures (splitmix64 of
 * (key << 32) + t). Reset r begins with 1 + (7 r + key) mod 30 no-ops. After a done the env is
 * reset, and the next action acts on the fresh observation. */
struct atari_event {
    int step; /* 0 is the first action's */
    float reward;
    int done;
};

/* Before action `step`. */
struct atari_reset {
    int step;
    uint32_t crc;
};

struct atari_trace {
    const char *env_id;
    int evaluator, key, actions;
    int steps, events, resets;
    const uint32_t *crc;             /* [steps]: CRC-32 of the 4 frames after each action */
    const struct atari_event *event; /* steps with a reward or an end */
    const struct atari_reset *reset;
};

/* clang-format off */"""

TAIL = """/* clang-format on */

#endif"""

MASK = (1 << 64) - 1


def fill(k, j):
    z = ((k << 32) + j + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return ((z ^ z >> 31) >> 40) / 2 ** 24


def table(kind, name, entries, per_line):
    print(f"static const {kind} {name}[] = {{")
    for start in range(0, len(entries), per_line):
        print("    " + " ".join(f"{entry}," for entry in entries[start:start + per_line]))
    print("};")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        traces = json.load(file)["traces"]
    print(HEAD)
    heads = []
    for trace in traces:
        rows, resets, actions = trace["rows"], trace["resets"], len(trace["actions"])
        for t, row in enumerate(rows):
            assert row[0] == math.floor(fill(trace["key"], t) * actions), (trace["game"], t)
        name = f"{trace['game']}_{trace['mode']}"
        events = [f"{{{t}, {reward:g}, {done}}}" for t, (_, reward, done, _) in enumerate(rows)
                  if reward or done]
        table("uint32_t", f"{name}_crc", [f"0x{row[3]:08x}" for row in rows], 16)
        table("struct atari_event", f"{name}_events", events, 8)
        table("struct atari_reset", f"{name}_resets", [f"{{{t}, 0x{crc:08x}}}" for t, crc in resets], 6)
        heads.append(f"    {{\"{trace['game'].capitalize()}NoFrameskip-v4\", "
                     f"{int(trace['mode'] == 'eval')}, {trace['key']}, {actions}, {len(rows)}, "
                     f"{len(events)}, {len(resets)}, {name}_crc, {name}_events, {name}_resets}},")
    print("static const struct atari_trace atari_traces[] = {")
    print("\n".join(heads))
    print("};")
    print(TAIL)


main()
