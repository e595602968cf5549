#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spin tries every order of events in the models of how ranks meet, how their links are made, and how a failure ends
them all. Each fault that a model can plant (-D FAULT_...) has to be found. The names of messages and states are those of
the code."""

import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from runner import ROOT, Scratch, skip

ENUMS = {"hd_wire_kind": "runtime/ranks/wire.h", "hd_comm_abort": "runtime/comm/comm_internal.h"}
UNUSED = {
    "HD_WIRE_KINDS": "counts the others",
    "HD_WIRE_HEARTBEAT": "finds hosts that are gone, after a time; the models let a rank that is gone close",
    "HD_WIRE_MESSAGE": "carries places, configs and checkpoints, which do not change who waits for whom",
}
VARIANTS = {"abort": ["", "ROOT_ALONE"]}  # of the model without faults; the first is that of its faults


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}: {done.stdout}")
    return done.stdout


def search(folder, model, define):
    """Returns the number of states of the model, and None or what is wrong with it: a line, then how it came to it."""
    os.mkdir(folder)
    source = shutil.copy(os.path.join(HERE, f"{model}.pml"), folder)
    spin = ["spin", *[f"-D{define}"] * bool(define)]
    run(*spin, "-a", os.path.basename(source), cwd=folder)
    run("cc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c", cwd=folder)
    text = run("./pan", "-m10000", cwd=folder)
    states, errors = re.search(r"(\d+) states, stored", text), re.search(r"errors: (\d+)", text)
    if not states or not errors or "max search depth" in text:
        sys.exit(f"failed: the search of {model} {define} has no end: {text}")
    if errors[1] == "0":
        return int(states[1]), None
    trail = run(*spin, "-t", "-p", "-g", os.path.basename(source), cwd=folder)
    return int(states[1]), re.search("pan:1: (.*)", text)[1] + "\n" + trail


def check_names(models):
    named = set(re.findall(r"\bHD_[A-Z_]+\b", "".join(models.values())))
    known = set()
    for enum, path in ENUMS.items():
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            body = re.search(rf"enum {enum} {{(.*?)}};", file.read(), re.S)[1]
        known |= set(re.findall(r"\bHD_[A-Z_]+\b", re.sub(r"/\*.*?\*/", "", body, flags=re.S)))
    wrong = [f"{name} is in a model, and not in the code" for name in sorted(named - known)]
    wrong += [f"{name} is in no model, and there is no reason why" for name in sorted(known - named - set(UNUSED))]
    wrong += [f"{name} has a reason to be in no model, but is in one, or not in the code"
              for name in sorted(set(UNUSED) & named | set(UNUSED) - known)]
    if wrong:
        sys.exit("failed: " + "; ".join(wrong))
    print(f"{len(known)} names of {', '.join(ENUMS)}")


def main():
    if not shutil.which("spin"):
        skip("spin is not installed (scripts/packages tests/models/packages.txt)")
    models = {}
    for path in sorted(glob.glob(os.path.join(HERE, "*.pml"))):
        with open(path, encoding="utf-8") as file:
            models[os.path.splitext(os.path.basename(path))[0]] = file.read()
    check_names(models)
    tries = [(model, variant) for model in models for variant in VARIANTS.get(model, [""])]
    tries += [(model, fault) for model, text in models.items() for fault in sorted(set(re.findall(r"FAULT_\w+", text)))]
    with Scratch() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda one: search(scratch("-".join(one)), *one), tries)
        wrong = [report(*one, *result) for one, result in zip(tries, results)]
    if any(wrong):
        sys.exit("failed: " + "; ".join(filter(None, wrong)))


def report(model, define, states, error):
    """Prints what was found. Returns what is wrong with that, or None."""
    planted = define.startswith("FAULT_")
    print(f"{model} {define}: {states} states" + (f", {error.splitlines()[0]}" if error else ""), flush=True)
    if planted and not error:
        return f"{model}: nothing is wrong with {define}"
    return None if planted or not error else f"{model} {define}: {error}"


if __name__ == "__main__":
    main()
