#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check: a bundle says "no GPU" of everything where there is none; on the emulation all of its
steps are made, in small sizes, and what fails is told as failing; results had without a GPU are not imported,
others are, the last of each."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, check, environment, skip  # noqa: E402

KIT = os.path.join(ROOT, "scripts/gpu-check")
BUILD = os.path.dirname(RUNNER)
# Steps that cannot be made on the emulation.
NOT_THERE = ("sanitizer", "ranks", "peers", "games")


def call(*command, expect, env=None, cwd=None):
    done = subprocess.run(command, text=True, capture_output=True, env=env or environment(), cwd=cwd, timeout=200)
    check(done.returncode == expect, f"{' '.join(command)}: exit code {done.returncode}, not {expect}\n"
                                     f"{done.stdout[-6000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def bundle(folder, *options):
    return call(KIT, "bundle", "--build", BUILD, *options, folder, expect=0)


def results(folder):
    """{step: its last line}"""
    with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as file:
        return {line["step"]: line for line in map(json.loads, file) if "step" in line}


def check_no_gpu(scratch):
    """Programs for GPUs, on a machine that has none (or is told so)."""
    folder = scratch("bundle")
    said = bundle(folder, "--tests", "test_adam")
    check(os.path.exists(folder + ".tar.gz") and "tar -xz" in said, said)
    os.rename(folder, scratch("elsewhere"))
    call(scratch("elsewhere/run"), scratch("none"), expect=77, env=environment(CUDA_VISIBLE_DEVICES=""))
    lines = results(scratch("none"))
    check(lines.pop("machine")["what"].startswith("no GPU"), "the machine has a GPU")
    check(len(lines) == 9 and {line["outcome"] for line in lines.values()} == {"no GPU"}, f"{lines}")
    said = call(KIT, "import", "--to", scratch.path, scratch("none"), expect=1)
    check("nothing in" in said, said)
    said = call(scratch("elsewhere/run"), scratch("none"), expect=2, env=environment(HD_GPU_CHECK_EMULATED=1))
    check("go together" in said, said)


def group(lines, name):
    found = [line for step, line in lines.items() if step.partition("/")[0] == name]
    check(found, f"no result of {name}")
    return found


def check_emulated(scratch):
    folder, out = scratch("emulated"), scratch("out")
    bundle(folder, "--emulated", "--tests", "test_adam,test_gae")
    call(folder + "/run", out, expect=0, env=environment(HD_GPU_CHECK_EMULATED=1))
    lines = results(out)
    for name in ("machine", "tests", "tolerances", "bits", "kernels", "strategies", "steady"):
        for line in group(lines, name):
            check(line["outcome"] in ("passed", "measured"), f"{line}")
    for name in NOT_THERE:
        for line in group(lines, name):
            check(line["outcome"] == "skipped" and line["why"], f"{line}")
    check(len(lines["tests/test_gae"]["cases_passed"]) > 10, f"{lines['tests/test_gae']}")
    places = lines["tolerances/test_adam"]["places"]
    check(any(0 < place["share"] <= 1 and place["checks"] > 100 for place in places), f"{places}")
    check(len({line["param_hash"] for line in group(lines, "bits") if "param_hash" in line}) == 2, "DQN's and PPO's")
    calls = lines["steady/cartpole_dqn"]["calls"]
    check(calls["cudaGraphLaunch"] > 0, f"nothing was counted: {calls}")
    with open(os.path.join(out, "summary.txt"), encoding="utf-8") as file:
        check("tests/test_adam" in file.read(), "the summary")
    call(KIT, "import", "--to", scratch.path, out, expect=1)
    return folder


def check_failures(scratch, folder):
    """A test that fails, and one that is not there."""
    with open(os.path.join(folder, "bin/test_gae"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho broken\nexit 3\n")
    os.remove(os.path.join(folder, "bin/test_adam"))
    call(folder + "/run", "--only", "tests", scratch("failing"), expect=1, env=environment(HD_GPU_CHECK_EMULATED=1))
    lines = results(scratch("failing"))
    check("exit code 3: broken" in lines["tests/test_gae"]["why"], f"{lines}")
    check("No such file" in lines["tests/test_adam"]["why"], f"{lines}")
    said = call(folder + "/run", "--only", "benches", expect=2, env=environment(HD_GPU_CHECK_EMULATED=1))
    check("no step is called benches" in said, said)


def check_import(scratch):
    os.mkdir(scratch("results"))
    os.mkdir(scratch("gpu"))
    with open(scratch("gpu/results.jsonl"), "w", encoding="utf-8") as file:
        for line in ({"machine": "NVIDIA H100 80GB HBM3", "date": "2026-01-02", "commit": "abc", "emulated": False},
                     {"step": "kernels/x", "outcome": "measured", "value": 2.0, "unit": "ms"},
                     {"step": "peers", "outcome": "skipped", "why": "no PyTorch"},
                     {"step": "kernels/x", "outcome": "measured", "value": 1.0, "unit": "ms"}):
            file.write(json.dumps(line) + "\n")
    call(KIT, "import", "--to", scratch("results"), scratch("gpu"), expect=0)
    with open(scratch("results/nvidia_h100_80gb_hbm3.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    check(lines == [{"case": "kernels/x", "outcome": "measured", "value": 1.0, "unit": "ms", "commit": "abc",
                     "gpu": "NVIDIA H100 80GB HBM3", "date": "2026-01-02"}], f"{lines}")


def main():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        if "HD_SANITIZE:BOOL=ON" in file.read():
            skip("programs with sanitizers are not for bundles")
    if not shutil.which("strip"):
        skip("no strip here")
    check("usage: scripts/gpu-check" in call(KIT, "--help", expect=0), "--help")
    with Scratch() as scratch:
        check_import(scratch)
        check_no_gpu(scratch)
        check_failures(scratch, check_emulated(scratch))


main()
