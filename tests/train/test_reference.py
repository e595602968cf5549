#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/configuration.md has what the program has: commands, options, keys, algorithms, verbs and layers."""

import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, call, check  # noqa: E402


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


PAGE = read("docs/configuration.md")
ROWS = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
NAMED = {name.lstrip(".") for row in ROWS for name in re.findall(r"`([^`]+)`", row)}


def has_key(path):
    """A key stands as the rest of its path below one of its prefixes, alone or in a list (`kl_low`, `kl_high`)."""
    parts = path.split(".")
    return any(".".join(parts[i:]) in NAMED for i in range(len(parts)))


def check_commands():
    commands = re.findall(r"^  ([\w-]+) +\S", call("--help").stdout.partition("commands:")[2], re.M)
    missing = [name for name in commands if not any(f"`runner {name}" in row for row in ROWS)]
    check(commands and not missing, f"commands that docs/configuration.md lacks: {missing}")
    options = {option for name in commands for option in re.findall(r"^  (--[\w-]+)", call(name, "--help").stdout, re.M)}
    missing = sorted(option for option in options - {"--help", "--version"}
                     if not any(re.search(rf"`{option}[` ]", row) for row in ROWS))
    check(not missing, f"options that docs/configuration.md lacks: {missing}")


def check_keys():
    said = call("keys").stdout
    paths = re.findall(r"^([a-zA-Z][\w.]+): ", said, re.M)
    missing = [path for path in paths if not has_key(path)]
    check(len(paths) > 100 and not missing, f"keys that docs/configuration.md lacks: {missing}")


def algorithms():
    return re.search(r"one of ([\w, ]+);", call("keys", "policy.type").stdout)[1].split(", ")


def check_algorithms():
    types = next(line for line in PAGE.splitlines() if line.startswith("| `type` | ") and "algorithm" in line)
    check(f"| {', '.join(algorithms())} |" in types, f"policy.type {algorithms()}: {types}")
    heads = PAGE.partition("| `policy.type` | heads")[2].partition("\n\n")[0]
    missing = [name for name in algorithms() if not re.search(rf"\b{name}\b", heads)]
    check(not missing, f"algorithms without a row of heads: {missing}")


def check_graphs():
    """Each algorithm's row names a graph that there is."""
    rows = re.findall(r'X\((\w+), \w+, \w+, \w+, "(\w+)"\)', read("tasks/base/policies.h"))
    check([name for name, _ in rows] == algorithms(), f"{rows}")
    missing = [graph for _, graph in rows if not os.path.exists(os.path.join(ROOT, f"configs/graphs/{graph}.yaml"))]
    check(not missing, f"no such graphs: {missing}")


def check_layers():
    sources = [read(path) for path in glob.glob(os.path.join(ROOT, "kernels/net/layers/**/*.c"), recursive=True)]
    layers = re.findall(r'\.name = "(\w+)"', "".join(sources))
    made = {"log_std", "concat"}  # by a Gaussian head, and at the end of an input
    missing = [name for name in layers if name not in NAMED | made]
    check(len(layers) > 9 and not missing, f"layers that docs/configuration.md lacks: {missing} of {layers}")


def main():
    check_commands()
    check_keys()
    check_algorithms()
    check_graphs()
    check_layers()


main()
