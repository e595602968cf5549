#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ptxas.py [FILE.cu ...]: all kernels compile for every family of GPUs that we mean to run on, without a
warning, without spilling registers, and so that a multiprocessor has registers for the largest block of a file's
launches. More static shared memory than a block may have does not compile. A commit tries half of the files."""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, check, skip  # noqa: E402
from ways import take_share  # noqa: E402

FAMILIES = ("sm_80", "sm_90", "sm_100", "sm_120")
REGISTERS = 64 << 10  # of a multiprocessor
COPIERS = 1024  # threads of a block that HD_LAUNCH_COPY starts, at most
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
                    r".*?Used (\d+) registers", re.DOTALL)


def read_commands():
    """{source: the words with which the build compiles it by nvcc}"""
    commands = {}
    with open(os.path.join(os.path.dirname(RUNNER), "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            words = shlex.split(entry["command"])
            compiler = next((i for i, word in enumerate(words[:2]) if os.path.basename(word) == "nvcc"), None)
            if compiler is not None:
                commands[entry["file"]] = words[compiler:]
    return commands


def read_with_headers(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    headers = re.findall(r'#include "(kernels/.*\.cuh)"', text)
    return text + "".join(read_with_headers(os.path.join(ROOT, header)) for header in headers)


def find_largest_block(path):
    sizes = [int(n) for n in re.findall(r"THREADS = (\d+)", read_with_headers(path))]
    with open(path, encoding="utf-8") as file:
        sizes += [COPIERS] if re.search(r"HD_LAUNCH_(COPY|ROWS)\(", file.read()) else []
    return max(sizes)


def compile_kernels(source, words, target):
    """What ptxas says of each kernel of a file."""
    kept = [word for word in words[1:words.index("-c")] if not re.match(r"-?-(generate-code|gencode|MD|MT|MF)", word)]
    kept = [word for word in kept if not word.endswith((".o", ".d"))]
    families = [word for family in FAMILIES for word in ("-gencode", f"arch=compute_{family[3:]},code={family}")]
    command = [words[0], *kept, *families, "-fatbin", "-Werror", "all-warnings", "-Xptxas", "-v,--warn-on-spills",
               "-o", target, source]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    check(done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}")
    return KERNEL.findall(done.stdout)


def list_excesses(source, kernels):
    threads = find_largest_block(source)
    most = REGISTERS // threads // 8 * 8
    for name, family, stores, loads, registers in kernels:
        place = f"{os.path.relpath(source, ROOT)}: {name} for {family}"
        if int(stores) or int(loads):
            yield f"{place} spills registers"
        if int(registers) > most:
            yield f"{place} uses {registers} registers; blocks of {threads} threads may use {most}"


def main(*sources):
    commands = read_commands()
    if not commands:
        skip("this build has no CUDA")
    wanted = {source: commands.get(source, next(iter(commands.values())))
              for source in sources or take_share(sorted(commands), "sources", of=2)}
    wrong, n = [], 0
    with Scratch() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        targets = [scratch(str(i)) for i in range(len(wanted))]
        for source, kernels in zip(wanted, pool.map(compile_kernels, wanted, wanted.values(), targets)):
            check({family for _, family, *_ in kernels} == set(FAMILIES), f"{source}: only {kernels}")
            wrong += list_excesses(source, kernels)
            n += len(kernels)
    check(not wrong, "\n".join(wrong))
    print(f"{n // len(FAMILIES)} kernels for {', '.join(FAMILIES)}")


main(*map(os.path.abspath, sys.argv[1:]))
