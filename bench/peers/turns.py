# SPDX-License-Identifier: Apache-2.0
"""Contenders take turns; what they did is printed side by side and saved."""

import json
import os
import statistics
import subprocess
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version

from machine import ROOT, commit, machine

OURS = "Heddle"
LESS_IS_BETTER = ("s", "ms", "us", "MB")
PEERS = ("torch", "gymnasium", "ale-py", "envpool", "DI-engine", "stable-baselines3", "cleanrl")


class Missing(Exception):
    """A contender cannot be measured here; says why."""


def versions():
    found = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass
    return found


def take_turns(contenders, repeats):
    """{name: [numbers]} of {name: function}; one that is Missing leaves the field."""
    numbers = {name: [] for name in contenders}
    absent = {}
    for turn in range(repeats):
        for name in list(contenders)[::-1 if turn % 2 else 1]:
            if name in absent:
                continue
            try:
                numbers[name].append(contenders[name]())
            except Missing as why:
                absent[name] = str(why)
    return {name: found for name, found in numbers.items() if name not in absent}, absent


def times_faster(ours, theirs, unit):
    return theirs / ours if unit in LESS_IS_BETTER else ours / theirs


def best(numbers, unit):
    return min(numbers) if unit in LESS_IS_BETTER else max(numbers)


def compare(mine, found, unit):
    """How many times faster: of the medians, and of the best turns."""
    return {"median": times_faster(statistics.median(mine), statistics.median(found), unit),
            "best": times_faster(best(mine, unit), best(found, unit), unit)}


def report(options, case, unit, contenders, judged=None, lines_p=None, **settings):
    """Measures contenders in turns, prints a block, saves lines. Of those that begin with OURS the ones
    in `judged` (default: all) are compared with every other contender. Returns {name: median}; the lines go
    to the list `lines_p` as well."""
    numbers, absent = take_turns(contenders, options.repeats)
    ours = [name for name in judged or numbers if name in numbers and name.startswith(OURS)]
    print(f"\n{case} [{unit}]" + "".join(f"   | {name} is better by" for name in ours))
    lines = []
    for name, found in numbers.items():
        line = {"case": case, "contender": name, "unit": unit, "median": statistics.median(found),
                "min": min(found), "max": max(found), "repeats": len(found)}
        text = f"  {name:52s} {line['median']:9.4g}  ({min(found):.4g} to {max(found):.4g})"
        if not name.startswith(OURS):
            ratios = {mine: compare(numbers[mine], found, unit) for mine in ours}
            line["heddle_times_faster"] = ratios
            text += "".join(f"   {ratio['median']:.2f} (best turns {ratio['best']:.2f})"
                            for ratio in ratios.values())
        print(text)
        lines.append({**line, **settings})
    for name, why in absent.items():
        print(f"  {name:52s} not measured: {why}", flush=True)
    if options.save:
        save(lines)
    if lines_p is not None:
        lines_p += lines
    return {line["contender"]: line["median"] for line in lines}


def save(lines):
    where = {"versions": versions(), "commit": commit(), "machine": machine(),
             "date": time.strftime("%Y-%m-%d")}
    with open(os.path.join(ROOT, "bench/results/peers.jsonl"), "a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps({**line, **where}) + "\n")


def pinned(cores, *words):
    return ["taskset", "-c", ",".join(map(str, cores)), *map(str, words)]


def environment(options):
    """Of Heddle's programs: plug-ins lie beside the build; one thread each."""
    build = os.path.abspath(options.build)
    return {**os.environ, "OMP_NUM_THREADS": "1",
            "HEDDLE_PLUGINS": os.environ.get("HEDDLE_PLUGINS", f"{build}/plugins")}


def part(options, *words, core=1):
    """The first number that `bench_parts WORDS` prints."""
    command = pinned([core], f"{options.build}/bench/bench_parts", *words)
    done = subprocess.run(command, cwd=ROOT, env=environment(options), text=True, capture_output=True,
                          check=False)
    if done.returncode != 0:
        raise Missing((done.stderr.splitlines() or [f"exit code {done.returncode}"])[0])
    return json.loads(done.stdout.splitlines()[0])["value"]


def execute(command, **more):
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False, **more)
    if done.returncode != 0:
        raise Missing((done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1])


def train(options, config, strategy, updates, warmup, settings, run=execute):
    """What `runner bench` says of a strategy on two cores, once; `run` executes its command."""
    with tempfile.TemporaryDirectory(prefix="heddle-peers-") as scratch:
        path = os.path.join(scratch, "line.jsonl")
        words = [f"{options.build}/runner", "bench", config, "--strategies", strategy, "--updates", updates,
                 "--warmup", warmup, "--repeats", 1, "--quiet", "--json", path]
        for setting in settings:
            words += ["--set", setting]
        run(pinned([0, 1], *words), cwd=ROOT, env=environment(options))
        with open(path, encoding="utf-8") as file:
            return json.loads(file.readline())
