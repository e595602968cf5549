#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its files and its commands, as they are typed. The environment has no faults, what was trained is far
better than drawn actions, two settings are compared, and the policy acts in Python as `runner eval` does."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, TIMEOUT, Scratch, check, environment, skip  # noqa: E402

PYTHON = os.path.join(ROOT, "build/plugins/gymnasium/bin")
LIBRARY = os.environ.get("HEDDLE_INFER_LIBRARY", os.path.join(ROOT, "build/libheddle-infer.so"))
# What is there already, and would take minutes.
MADE = ("scripts/setup ", "scripts/gymnasium ", "pip install ")
GOOD = 30  # a return; drawn actions have 6


def read_tutorial():
    """({name: text} of its files, its commands)"""
    with open(os.path.join(ROOT, "docs/tutorial.md"), encoding="utf-8") as file:
        text = file.read()
    files = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", text, re.M | re.S))
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S) for line in block.splitlines()]
    made = [line for line in lines if line.startswith(MADE)]
    check(sorted(files) == ["act.py", "room.py", "room.yaml"] and len(made) == len(MADE), f"{list(files)}, {made}")
    return files, [line for line in lines if not line.startswith(MADE)]


def main():
    if not os.path.exists(os.path.join(PYTHON, "python3")):
        skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
    files, commands = read_tutorial()
    with Scratch() as scratch:
        for folder in ("clone/build", "room"):
            os.makedirs(scratch(folder))
        os.symlink(RUNNER, scratch("clone/build/runner"))
        for name, text in files.items():
            with open(os.path.join(scratch("room"), name), "w", encoding="utf-8") as file:
                file.write(text)
        env = environment(HOME=scratch.path, PYTHONPATH=os.path.join(ROOT, "python"), HEDDLE_INFER_LIBRARY=LIBRARY,
                          PATH=f"{PYTHON}:{os.environ['PATH']}")
        done = subprocess.run(["bash", "-euxc", "\n".join(commands)], cwd=scratch("clone"), env=env, text=True,
                              capture_output=True, timeout=TIMEOUT)
        said = done.stdout + done.stderr
        check(done.returncode == 0, said)
        for word in ("no faults", "results in first", "loss_grad", "0.001   "):
            check(word in done.stdout + done.stderr, f"no {word!r}: {said}")
        check(len(re.findall(r"^0\.\d+ +2 ", done.stdout, re.M)) == 2, f"not two groups of two runs: {said}")
        left = [name for name in ("first/report.html", "compare.html") if not os.path.exists(scratch(f"room/{name}"))]
        check(not left, f"no {left}")
        evaluated = float(re.search(r"^mean ([\d.]+)$", done.stdout, re.M)[1])
        acted = float(re.search(r"^mean return of ten episodes: ([\d.]+)$", done.stdout, re.M)[1])
        check(evaluated > GOOD and abs(evaluated - acted) < 0.006, f"runner eval: {evaluated}, Python: {acted}")


main()
