#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an installation for several instruction sets starts: the best that the processor has and that is there, up to
HD_ISA; the Python package chooses likewise. The chooser is real, the programs are not; tests/long/test_isas.py builds
them."""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, call, check, environment, skip  # noqa: E402

LIBRARY = "libheddle-infer.so"


def load_rule():
    spec = importlib.util.spec_from_file_location("_isa", os.path.join(ROOT, "python/heddle/_isa.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(scratch, *arguments, isa=""):
    return subprocess.run([scratch("bin/runner"), *arguments], env=environment(HD_ISA=isa), text=True, capture_output=True)


def install(scratch, isas):
    """A chooser, and for each instruction set a program that prints its name and what it was given."""
    os.makedirs(scratch("bin"))
    subprocess.run(["cc", "-std=gnu17", "-Wall", "-Werror", os.path.join(ROOT, "runner/chooser.c"), "-o", scratch("bin/runner")],
                   check=True)
    for isa in isas:
        os.makedirs(scratch(f"lib/heddle/{isa}"))
        with open(scratch(f"lib/heddle/{isa}/{LIBRARY}"), "w", encoding="utf-8"):
            pass
        with open(scratch(f"lib/heddle/{isa}/runner"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nprintf "%s\\n" {isa} "$@"\n')
        os.chmod(scratch(f"lib/heddle/{isa}/runner"), 0o755)


def choose_by_rule(rule, scratch, isa=""):
    os.environ["HD_ISA"] = isa
    try:
        return rule.find_variant(scratch("lib/heddle"), LIBRARY).split("/")[-2]
    except ImportError as error:
        return str(error)


def check_choice(scratch, rule, isas, here):
    for isa in ("", *here):
        said = start(scratch, "run", "a file.yaml", isa=isa)
        wanted = isa or here[-1]
        check(said.stdout == f"{wanted}\nrun\na file.yaml\n" and said.returncode == 0, f"HD_ISA={isa}: {said}")
        check(choose_by_rule(rule, scratch, isa) == wanted, f"HD_ISA={isa}: the package does not choose {wanted}")
    for isa in ("avx2", "x86-64-v", *(isa for isa in isas if isa not in here)):
        wanted = f"HD_ISA: expected one of this processor's instruction sets ({', '.join(here)}), found '{isa}'"
        said = start(scratch, isa=isa)
        check(said.returncode == 2 and said.stderr == f"runner: {wanted}\n", f"HD_ISA={isa}: {said}")
        check(choose_by_rule(rule, scratch, isa) == wanted, f"HD_ISA={isa}: {choose_by_rule(rule, scratch, isa)}")


def check_absence(scratch, rule, here):
    """Without the best, the next; below the lowest there is nothing."""
    for isa, lower in zip(reversed(here), [*reversed(here[:-1]), None]):
        shutil.rmtree(scratch(f"lib/heddle/{isa}"))
        said, chosen = start(scratch), choose_by_rule(rule, scratch)
        if lower:
            check(said.stdout == f"{lower}\n" and chosen == lower, f"without {isa}: {said}, {chosen}")
        else:
            check(said.returncode == 1 and f"no program for {here[-1]} or less" in said.stderr, f"{said}")
            check(f"no {LIBRARY} for {here[-1]} or less" in chosen or here[-1] == "x86-64-v4-amx", chosen)


def check_program(scratch, lowest):
    """The program behind the chooser has its own words, plug-ins and processes."""
    os.makedirs(scratch(f"lib/heddle/{lowest}"))
    os.symlink(RUNNER, scratch(f"lib/heddle/{lowest}/runner"))
    check(start(scratch, "--help").stdout == call("--help").stdout, "--help is not that of the program")
    check(start(scratch, "nothing").returncode == 2, "the exit code is not that of the program")


def main():
    if platform.machine() != "x86_64":
        skip("this is not an x86-64 processor")
    if not shutil.which("cc"):
        skip("there is no compiler `cc`")
    rule = load_rule()
    isas = list(rule.ISAS)
    with Scratch() as scratch:
        install(scratch, isas)
        os.environ.pop("HD_ISA", None)
        here = rule.list_isas()[::-1]
        check_choice(scratch, rule, isas, here)
        check_absence(scratch, rule, here)
        check_program(scratch, here[0])
    kernels = json.loads(call("doctor", "--json", expect=None).stdout)["versions"]["kernels"]
    check(kernels.split()[-1] in (*isas, "x86-64"), f"doctor: kernels {kernels}")
    print(f"this processor has {', '.join(here)}; this build is {kernels}")


main()
