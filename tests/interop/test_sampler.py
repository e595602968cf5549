#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our sampler against torch's DistributedSampler, run by two gloo processes: the same lists where nothing is
shuffled, and of our order where it is; of torch's own orders as many samples, as often, on as many shards."""

import collections
import ctypes
import itertools
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, skip  # noqa: E402
from pytorch.torch_ranks import find_python, run_ranks  # noqa: E402

SIZES = (1, 2, 3, 7, 8, 64, 101)
SHARDS = (None, 1, 3, 4, 10)  # None: the two processes
EPOCHS = 2
PAD, DROP = 0, 1


class Sampler(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("samples", ctypes.c_int64), ("shards", ctypes.c_int64),
                ("shuffle", ctypes.c_bool), ("tail", ctypes.c_int)]


def build(path):
    sources = [os.path.join(ROOT, name) for name in ("kernels/replay/sampler.c", "runtime/base/hash.c", "runtime/base/input/input.c")]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{ROOT}", *sources, "-o", path, "-lxxhash"],
                   check=True)
    library = ctypes.CDLL(path)
    library.hd_sampler_count.restype = library.hd_sampler_get.restype = ctypes.c_int64
    return library


def our_lists(library, samples, shards, shuffle, drop_last):
    """lists[shard][epoch], and which of their entries are padding."""
    sampler = Sampler(5, samples, shards, shuffle, DROP if drop_last else PAD)
    lists, padding = [], []
    for shard in range(shards):
        count = library.hd_sampler_count(ctypes.byref(sampler), ctypes.c_int64(shard))
        flags = [[ctypes.c_bool() for _ in range(count)] for _ in range(EPOCHS)]
        lists.append([[library.hd_sampler_get(ctypes.byref(sampler), ctypes.c_int64(epoch), ctypes.c_int64(shard),
                                             ctypes.c_int64(i), ctypes.byref(flags[epoch][i])) for i in range(count)]
                      for epoch in range(EPOCHS)])
        padding.append([[flag.value for flag in row] for row in flags])
    return lists, padding


def times_dealt(lists, epoch):
    """How many samples come up how often."""
    times = collections.Counter(itertools.chain(*(shard[epoch] for shard in lists)))
    return collections.Counter(times.values())


def compare(library, case, theirs):
    samples, shards, shuffle, drop_last, _ = case
    shards = shards or 2
    check([[len(epoch) for epoch in shard] for shard in theirs[0]] ==
          [[len(epoch) for epoch in shard] for shard in our_lists(library, samples, shards, shuffle, drop_last)[0]],
          f"{case}: lists of other lengths")
    ours, padding = our_lists(library, samples, shards, shuffle, drop_last)
    check(all(rank == theirs[0] for rank in theirs), f"{case}: torch's ranks do not agree")
    theirs = theirs[0]
    for epoch in range(EPOCHS):
        order = our_lists(library, samples, 1, shuffle, False)[0][0][epoch]
        check(sorted(order) == list(range(samples)), f"{case}: our order is none")
        check(times_dealt(ours, epoch) == times_dealt(theirs, epoch), f"{case}: other samples are dealt twice or never")
        first = [entry for shard, flags in zip(ours, padding) for entry, flag in zip(shard[epoch], flags[epoch])
                 if not flag]
        check(len(set(first)) == len(first), f"{case}: a sample is on two lists and not padding")
    return ours, theirs


def main():
    python = find_python()
    if not python:
        skip("no Python with PyTorch; scripts/packages tests/interop/packages.txt installs Debian's")
    cases = [list(case) for case in itertools.product(SIZES, SHARDS, (False, True), (False, True), (EPOCHS,))]
    with Scratch() as scratch:
        library = build(scratch("sampler.so"))
        answers = run_ranks(python, "torch_sampler.py", 2, cases)
        unshuffled = {}
        for i, case in enumerate(cases):
            ours, theirs = compare(library, case, [answer[i] for answer in answers])
            if not case[2]:
                check(ours == theirs, f"{case}: we deal {ours}, torch {theirs}")
                unshuffled[tuple(case[:2]), case[3]] = theirs
                continue
            # torch's structure over our order: what it deals of 0, 1, 2, … are places in an order.
            places = unshuffled[tuple(case[:2]), case[3]]
            for epoch in range(EPOCHS):
                order = our_lists(library, case[0], 1, True, False)[0][0][epoch]
                for shard, rows in enumerate(places):
                    check(ours[shard][epoch] == [order[place] for place in rows[epoch]],
                          f"{case}: shard {shard} of epoch {epoch} is not our order dealt by torch")
        large = [case for case in cases if case[0] == 101 and case[2]]
        for case in large:
            lists = our_lists(library, 101, case[1] or 2, True, case[3])[0]
            check(lists[0][0] != lists[0][1], f"{case}: two epochs are alike")
        print(f"{len(cases)} deals are torch's")


main()
