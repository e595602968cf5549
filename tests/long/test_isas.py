#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installation for several instruction sets, built in build/isas: with HD_ISA it learns bit by bit what a build for
that set alone learns, whose kernels pass their tests; ranks of different sets refuse each other; and programs that link
the C library get the variant for this processor."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, check, environment, free_port, sets  # noqa: E402

BUILDS = os.path.join(ROOT, "build/isas")
ISAS = ("x86-64-v2", "x86-64-v3", "x86-64-v4-bf16")
PONG = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
RUNS = ((CONFIG, 10, "f32"), (PONG, 3, "f32"), (PONG, 3, "bf16"))


def run(*command, **more):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    check(done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-6000:]}")
    return done.stdout


def build(name, targets, *options):
    folder = os.path.join(BUILDS, name)
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DHD_CUDA=OFF",
        "-DHD_STARPU_ROOT=", *options)
    run("cmake", "--build", folder, "--target", *targets)
    return folder


def read_kernels(program, isa):
    done = subprocess.run([program, "doctor", "--json"], env=environment(HD_ISA=isa), text=True, capture_output=True)
    return json.loads(done.stdout)["versions"]["kernels"].split()[-1]


def learn(program, isa, directory):
    hashes = []
    for config, updates, precision in RUNS[:2 if isa < "x86-64-v4" else 3]:
        at = f"{directory}_{len(hashes)}"
        run(program, "run", config, "--dir", at, "--quiet",
            *sets(max_train_iter=updates, env__stop_value="1e9", runtime__precision=precision), env=environment(HD_ISA=isa))
        with open(os.path.join(at, "result.json"), encoding="utf-8") as file:
            hashes.append(json.load(file)["param_hash"])
    return hashes


def check_bits(scratch, installed):
    learnt = {}
    for isa in ISAS:
        single = build(isa, ["runner", "test_kernels"], f"-DHD_MARCH={isa}")
        run(os.path.join(single, "tests/test_kernels"))
        program = os.path.join(single, "runner")
        check(read_kernels(program, "") == isa == read_kernels(installed, isa), f"doctor does not name {isa}")
        learnt[isa] = learn(installed, isa, scratch(f"{isa}_chosen"))
        alone = learn(program, isa, scratch(f"{isa}_alone"))
        check(learnt[isa] == alone, f"{isa}: {learnt[isa]}, but built alone {alone}")
        print(isa, *learnt[isa], flush=True)
    native = read_kernels(RUNNER, "")
    if native in learnt:
        mine = learn(RUNNER, native, scratch("native"))
        check(mine == learnt[native], f"for this processor: {mine}, and for {native} {learnt[native]}")


def check_ranks(scratch, installed):
    """Two ranks, each with an instruction set of its own."""
    port = free_port()
    ranks = [subprocess.Popen([installed, "run", CONFIG, "--dir", scratch("mixed"), "--quiet"], text=True,
                              env=environment(HD_ISA=isa, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2,
                                              MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank, isa in enumerate(ISAS[:2])]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    check([rank.returncode for rank in ranks] == [2, 2], f"ranks of two instruction sets: {said}")
    check(f"isa: {ISAS[1]} against {ISAS[0]}" in said[0] and "HD_ISA=NAME" in said[0], said[0])


def check_library(scratch, prefix):
    """The loader's choice is the best of those that glibc knows."""
    run("cc", os.path.join(ROOT, "tests/infer/installed/play.c"), f"-I{prefix}/include", f"-L{prefix}/lib", "-lheddle-infer",
        f"-Wl,-rpath,{prefix}/lib", "-o", scratch("play"))
    loaded = next(line.split()[2] for line in run("ldd", scratch("play")).splitlines() if "heddle-infer" in line)
    check("/glibc-hwcaps/x86-64-v3/" in loaded, f"a program loads {loaded}")


def main():
    with Scratch() as scratch:
        prefix = scratch("prefix")
        run("cmake", "--install", build("all", ["installation"], "-DHD_TESTS=OFF", f"-DHD_ISAS={';'.join(ISAS)}"), "--prefix",
            prefix)
        installed = os.path.join(prefix, "bin/runner")
        check_library(scratch, prefix)
        check_ranks(scratch, installed)
        check_bits(scratch, installed)


main()
