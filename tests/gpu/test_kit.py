#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check: a bundle says "no GPU" of everything where there is none; on the emulation all of its
steps are made, in small sizes, and what fails is told as failing; results had without a GPU are not recorded,
others are, the last of each. A rehearsal keeps the rules of borrowed machines: a command may be killed at any
moment, and only a few files with plain names come back."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, check, environment, skip  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests/gpu/kit"))
from jobs import Done  # noqa: E402

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


def results(folder, name="results"):
    """{step: its last line}"""
    with tarfile.open(os.path.join(folder, name + ".tar.gz")) as archive, archive.extractfile("results.jsonl") as file:
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
    check(len(lines) == 12 and {line["outcome"] for line in lines.values()} == {"no GPU"}, f"{lines}")
    said = call(KIT, "record", "--to", scratch.path, scratch("none"), expect=1)
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
    for name in ("machine", "smoke", "tests", "tolerances", "bits", "kernels", "hops", "strategies", "steady", "early"):
        for line in group(lines, name):
            left_out = name == "smoke" and line["outcome"] == "skipped"
            check(line["outcome"] in ("passed", "measured") or left_out, f"{line}")
    for name in NOT_THERE:
        for line in group(lines, name):
            check(line["outcome"] == "skipped" and line["why"], f"{line}")
    check(len(lines["tests/test_gae"]["cases_passed"]) > 10, f"{lines['tests/test_gae']}")
    places = lines["tolerances/test_adam"]["places"]
    check(any(0 < place["share"] <= 1 and place["checks"] > 100 for place in places), f"{places}")
    check(len({line["param_hash"] for line in group(lines, "bits") if "param_hash" in line}) == 3, "DQN's, PPO's, a list's")
    calls = lines["steady/cartpole_dqn"]["calls"]
    check(calls["cudaGraphLaunch"] > 0, f"nothing was counted: {calls}")
    with open(os.path.join(out, "results.txt"), encoding="utf-8") as file:
        check("tests/test_adam" in file.read(), "the summary")
    call(KIT, "record", "--to", scratch.path, out, expect=1)
    return folder


def check_rules(out):
    """What a borrowed machine gives back: few files, not large, with plain names."""
    files = [os.path.join(top, name) for top, _, names in os.walk(out) for name in names]
    check(0 < len(files) <= 8, f"{files}")
    for path in files:
        check(os.path.getsize(path) < 16 << 20 and re.fullmatch(r"[\w.-]+", os.path.relpath(path, out)), path)


def check_rehearsal(scratch, folder):
    """Killed in the middle of its first phase, the kit has left what it knew; another call makes the phase."""
    env, out = environment(HD_GPU_CHECK_EMULATED=1), scratch("rehearsal")
    process = subprocess.Popen([folder + "/run", "--phase", "1", out], env=env, stdout=subprocess.DEVNULL,
                               start_new_session=True)
    summary, end = os.path.join(out, "results-1.txt"), time.monotonic() + 60
    while not (os.path.exists(summary) and "smoke/dqn" in open(summary, encoding="utf-8").read()):
        check(process.poll() is None and time.monotonic() < end, "the kit told nothing of its first step")
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    check_rules(out)
    check(results(out, "results-1")["smoke/dqn"]["outcome"] == "passed", "a result is lost")
    call(folder + "/run", "--phase", "1", out, expect=0, env=env)
    check_rules(out)
    lines = results(out, "results-1")
    check({"smoke/ppo", "tests/test_gae", "tolerances/test_adam", "bits/dqn/lws"} <= set(lines), f"{sorted(lines)}")


def check_repetition(scratch, folder):
    """A run that fails runs again task by task."""
    runner = os.path.join(folder, "bin/runner")
    os.rename(runner, runner + ".whole")
    with open(runner, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\ncase "$*" in *executor=sequential*) exec "$0.whole" "$@";; esac\necho broken >&2; exit 1\n')
    os.chmod(runner, 0o755)
    call(folder + "/run", "--only", "smoke", scratch("again"), expect=1, env=environment(HD_GPU_CHECK_EMULATED=1))
    os.replace(runner + ".whole", runner)
    lines = results(scratch("again"))
    check(lines["smoke/dqn"]["outcome"] == "failed" and lines["smoke/dqn/sequential"]["outcome"] == "passed", f"{lines}")


def check_failures(scratch, folder):
    """Tests that fail, and tests that are not there."""
    program = os.path.join(folder, "bin/test_kernels")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho broken\nexit 3\n")
    call(folder + "/run", "--only", "tests", scratch("failing"), expect=1, env=environment(HD_GPU_CHECK_EMULATED=1))
    lines = results(scratch("failing"))
    check("exit code 3: broken" in lines["tests/test_gae"]["why"], f"{lines}")
    check("exit code 3: broken" in lines["tests/test_gae"]["together"], "it did not run again")
    os.remove(program)
    call(folder + "/run", "--only", "tests", scratch("absent"), expect=1, env=environment(HD_GPU_CHECK_EMULATED=1))
    lines = results(scratch("absent"))
    check("No such file" in lines["tests/test_adam"]["why"], f"{lines}")
    said = call(folder + "/run", "--only", "benches", expect=2, env=environment(HD_GPU_CHECK_EMULATED=1))
    check("no step is called benches" in said, said)


def check_record(scratch):
    os.mkdir(scratch("results"))
    os.mkdir(scratch("gpu"))
    lines = [{"machine": "NVIDIA H100 80GB HBM3", "date": "2026-01-02", "commit": "abc", "emulated": False},
             {"step": "kernels/x", "outcome": "measured", "value": 2.0, "unit": "ms"},
             {"step": "peers", "outcome": "skipped", "why": "no PyTorch"},
             {"step": "kernels/x", "outcome": "measured", "value": 1.0, "unit": "ms"}]
    peers = {"Heddle f32": 1.5, "Heddle f32, runs": 9, "PyTorch f32, graph": 4, "PyTorch f32, compile graph": 3}
    lines += [{"step": f"peers/update pong f32, batch 32, 1 GPU/{name}", "outcome": "measured", "value": value}
              for name, value in peers.items()]
    lines += [{"step": f"games/pong_ppo_gpu seed {seed}", "outcome": "measured", "value": 10 + seed} for seed in range(3)]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with tarfile.open(scratch("gpu/results-2.tar.gz"), "w:gz") as archive:
        member = tarfile.TarInfo("results.jsonl")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    with open(scratch("page.md"), "w", encoding="utf-8") as file:
        file.write("# Page\n<!-- scripts/gpu-check record: begin -->\n| old |\n<!-- end -->\nrest\n")
    call(KIT, "record", "--to", scratch("results"), "--page", scratch("page.md"), scratch("gpu"), expect=0)
    with open(scratch("results/nvidia_h100_80gb_hbm3.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    check(len(lines) == 8 and lines[0] == {"case": "kernels/x", "outcome": "measured", "value": 1.0, "unit": "ms",
                                           "commit": "abc", "gpu": "NVIDIA H100 80GB HBM3", "date": "2026-01-02"}, f"{lines}")
    with open(scratch("page.md"), encoding="utf-8") as file:
        page = file.read()
    gpu = "| NVIDIA H100 80GB HBM3 |"
    check(f"{gpu} update, pong, batch 32, ms | f32 | 1.5 | 3 | 2.00 | abc |\n" in page, page)
    check(f"{gpu} pong_ppo_gpu until solved, s, 3 runs |  | 11 |  |  | abc |\n<!-- end -->\nrest\n" in page and "old" not in page,
          page)


def check_skips():
    """An exit code alone is none: other programs, StarPU among them, know 77 too."""
    for said, outcome in (("skipped: test_adam: no GPU here\n", "skipped"), ("All GPUs are busy\n", "failed"), ("", "failed")):
        check(Done(77, 1, said).outcome()["outcome"] == outcome, f"exit code 77 and {said!r} are not {outcome}")


def main():
    check_skips()
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        if "HD_SANITIZE:BOOL=ON" in file.read():
            skip("programs with sanitizers are not for bundles")
    if not shutil.which("strip"):
        skip("no strip here")
    check("usage: scripts/gpu-check" in call(KIT, "--help", expect=0), "--help")
    with Scratch() as scratch:
        check_record(scratch)
        check_no_gpu(scratch)
        folder = check_emulated(scratch)
        check_rehearsal(scratch, folder)
        check_repetition(scratch, folder)
        check_failures(scratch, folder)


main()
