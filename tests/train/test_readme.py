#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of README's quick start, as they are typed: 1, 2 and 4 ranks end in the same parameters."""

import json
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, TIMEOUT, Scratch, check, environment  # noqa: E402


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def commands():
    """What the fenced lines of the quick start run, scripts/run as the command that it ends in."""
    section = re.search(r"## Quick start\n(.*?)\n## ", read("README.md"), re.S).group(1)
    for block in re.findall(r"```sh\n(.*?)```", section, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line == "scripts/test":  # this is one of its tests
                continue
            if line == "scripts/run":
                line = re.search(r'exec (build/runner .*) "\$@"', read("scripts/run")).group(1)
            yield shlex.split(line)


def ranks_of(command):
    return int(command[command.index("--nproc-per-node") + 1]) if "--nproc-per-node" in command else 1


def main():
    with Scratch() as scratch:
        os.mkdir(scratch("build"))
        os.symlink(RUNNER, scratch("build/runner"))
        os.symlink(os.path.join(ROOT, "configs"), scratch("configs"))
        trained, said = [], ""
        for command in commands():
            done = subprocess.run(command, cwd=scratch.path, env=environment(), text=True, capture_output=True,
                                  timeout=TIMEOUT)
            said = done.stdout + done.stderr
            check(done.returncode == 0, f"{command}: {said}")
            if command[1] in ("run", "launch"):
                trained.append(ranks_of(command))
        hashes = set()
        for folder in os.scandir(scratch.path):
            if os.path.exists(os.path.join(folder.path, "result.json")):
                with open(os.path.join(folder.path, "result.json"), encoding="utf-8") as file:
                    hashes.add(json.load(file)["param_hash"])
        check(sorted(trained) == [1, 2, 4] and len(hashes) == 1, f"{trained} ranks: {hashes}")
        check("parameters at the end: the same bits" in said, said)


main()
