# SPDX-License-Identifier: Apache-2.0
"""Pairwise covering sets of settings."""

import itertools
import random


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
