# SPDX-License-Identifier: Apache-2.0
"""Runs that have to end in the same bits: sets of settings, and the share of them that a commit tries."""

import itertools
import os
import random
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import check, draw_seed, train  # noqa: E402

RESULTS = ("param_hash", "eval_value_raw", "env_step", "train_iter")


def take_share(items, name, of=4):
    """One in `of` of the items, rounded up, in their order; others at another commit. All with HD_WHOLE=1."""
    items = list(items)
    if os.environ.get("HD_WHOLE") == "1":
        return items
    draw = random.Random(draw_seed() ^ zlib.crc32(name.encode()))
    chosen = draw.sample(range(len(items)), -(-len(items) // of))
    return [items[number] for number in sorted(chosen)]


def covering_set(factors, seed, size):
    """Rows that together hold every pair of levels of every two factors, greedily; at most `size`. How many
    pairs are left."""
    rng = random.Random(seed)
    names = list(factors)
    wanted = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2)
              for x in factors[a] for y in factors[b]}
    rows = []
    while wanted and len(rows) < size:
        tries = [{n: rng.choice(factors[n]) for n in names} for _ in range(200)]
        pairs = [{((a, row[a]), (b, row[b])) for a, b in itertools.combinations(names, 2)}
                 for row in tries]
        best = max(range(len(tries)), key=lambda i: len(pairs[i] & wanted))
        wanted -= pairs[best]
        rows.append(tries[best])
    return rows, len(wanted)


def draw_ways(factors, seed, n):
    """n rows of settings, drawn so that each level of every factor comes up."""
    rng = random.Random(seed)
    columns = {name: list(itertools.islice(itertools.cycle(levels), n)) for name, levels in factors.items()}
    for levels in columns.values():
        rng.shuffle(levels)
    return [{name: columns[name][i] for name in columns} for i in range(n)]


def other(way, fixed):
    """What a way changes, also of its environment."""
    changed = {key: value for key, value in way.items() if key != "env" and fixed.get(key) != value}
    return changed | dict(set(way.get("env", {}).items()) - set(fixed.get("env", {}).items()))


def check_ways(scratch, name, fixed, ways, results=RESULTS):
    """A run with the settings `fixed` and those that a share of `ways` adds or changes have the same results. Returns
    the param_hash."""
    reference = train(scratch(name), **fixed)
    ways = take_share(ways, name)
    for number, way in enumerate(ways):
        found = train(scratch(f"{name}_{number}"), **{**fixed, **way})
        for key in results:
            check(found[key] == reference[key], f"{name}, {other(way, fixed)}: {key} {found[key]}, not {reference[key]}")
    check(reference["param_hash"], f"{name}: no parameters")
    print(f"{name}: {1 + len(ways)} runs end in {reference['param_hash']}")
    return reference["param_hash"]
