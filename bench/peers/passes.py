# SPDX-License-Identifier: Apache-2.0
"""One pass through lists of layers on one core, in CPU time: acting, forward alone, and an update, forward and
backward. PyTorch in every way that might be its best, against bench_parts passes."""

import functools

from machine import machine
from turns import OURS, part, report
from worker import Worker

MLP = ("mlp_64", "mlp_256", "norm_256")
RECURRENT = ("gru", "lstm")
NETS = ("impala", *RECURRENT, *MLP)
ACTS = (1, 16, 256)
# What PyTorch does in f32 and in bf16; each may be compiled.
WAYS = {"f32": [[], ["channels_last"]],
        "bf16": [["autocast"], ["autocast", "channels_last"], ["pure"], ["pure", "channels_last"]]}


def cases(net):
    """(what, rows, steps)"""
    updates = [(512, 16)] if net in RECURRENT else [(rows, 1) for rows in ((64, 256, 2048) if net in MLP else (256,))]
    return [("update", *update) for update in updates] + [("act", rows, 1) for rows in ACTS]


def ways(net, what, precision):
    for way in WAYS[precision]:
        if "channels_last" in way and net != "impala":
            continue
        for how in ([], ["compile"], *([["onednn"]] if what == "act" and not way else [])):
            yield [*way, *how]
            if what == "act" and net in RECURRENT:
                yield [*way, *how, "cell"]


def choose(ask, net, what, precision):
    """The two fastest ways, each tried for half a second."""
    tried = {}
    for way in ways(net, what, precision):
        ms = ask(way=way, seconds=0.5)
        if isinstance(ms, str):
            print(f"  {' '.join(way)}: {ms}", flush=True)
        else:
            tried[tuple(way)] = ms
    return sorted(tried, key=tried.get)[:2]


def compare(options, ask, net, what, rows, steps):
    """[(case, ours or None, the best of theirs)] by precision"""
    found = []
    for precision in WAYS:
        contenders = {OURS: functools.partial(part, options, "passes", net, precision, what, rows, steps)}
        for way in choose(ask, net, what, precision):
            name = "PyTorch " + (" ".join(way) or "as it is")
            contenders[name] = functools.partial(ask, way=list(way), seconds=1)
        of = f"{rows // steps} x {steps} steps" if steps > 1 else f"{rows} rows"
        case = f"{what} {net} {precision}, {of}"
        medians = report(options, f"{case}, 1 core", "ms", contenders)
        theirs = [name for name in medians if name != OURS]
        found += [(case, medians.get(OURS), min(theirs, key=medians.get), medians)] if theirs else []
    return found


def run(options):
    found = []
    for net in options.net or NETS:
        for what, rows, steps in cases(net):
            with Worker([1], "passes_torch.py") as worker:
                ask = functools.partial(worker.ask, name=net, what=what, rows=rows, steps=steps)
                found += compare(options, ask, net, what, rows, steps)
    print(f"\n{machine()}: ms by Heddle, by PyTorch's best way, and how many times faster Heddle is")
    for case, ours, best, medians in found:
        mine = f"{ours:9.4g} {medians[best]:9.4g} {medians[best] / ours:6.2f}" if ours else f"{'-':>9s} {medians[best]:9.4g} {'-':>6s}"
        print(f"  {case:36s} {mine}   {best}")
