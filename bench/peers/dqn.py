# SPDX-License-Identifier: Apache-2.0
"""Training Pong with DQN end to end on two cores, DI-engine's config of it: collecting 96 samples of 4 envs
and ten updates of batch 32, in turns; evaluations are left out on both sides. Updates per second, and
memory of all processes (proportional share) at its highest and with a full replay of 100,000 transitions:
Heddle takes its replay at the start, DI-engine's growth is carried on."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time

from turns import OURS, Missing, pinned, report, train

HERE = os.path.dirname(os.path.abspath(__file__))
WARM, UPDATES = 20, 40


def tree(pid):
    """The numbers of a process and of all below it."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            below = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return [pid, *(number for child in below for number in tree(child))]


def megabytes(pid):
    total = 0
    for number in tree(pid):
        try:
            with open(f"/proc/{number}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def watch(command, memory, **more):
    """Runs a command; appends to `memory` the most that its processes ever held."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, **more)
        most = 0
        try:
            while process.poll() is None:
                most = max(most, megabytes(process.pid))
                time.sleep(1)
        finally:
            process.terminate()
            process.wait()
        said.seek(0)
        lines = said.read().splitlines()
    if process.returncode != 0:
        raise Missing(lines[-1] if lines else f"exit code {process.returncode}")
    memory.append(most)


def heddle(options, strategy, precision, memory):
    line = train(options, "configs/pong_dqn_ddp.yaml", strategy, UPDATES, WARM,
                 [f"runtime.precision={precision}", "policy.learn.microbatch=16", "world.shards=auto"],
                 functools.partial(watch, memory=memory))
    return line["updates_per_s"]


def di_engine(memory, full):
    with tempfile.TemporaryDirectory(prefix="heddle-peers-") as scratch:
        path = os.path.join(scratch, "rate.json")
        words = [sys.executable, os.path.join(HERE, "dqn_di_engine.py"), WARM, UPDATES, path]
        watch(pinned([0, 1], *words), memory, cwd=scratch,
              env={**os.environ, "PYTHONPATH": HERE, "OMP_NUM_THREADS": "2"})
        with open(path, encoding="utf-8") as file:
            rate, growth = json.load(file)
        full.append(memory[-1] + growth)
        return rate


def run(options):
    memory = {}
    contenders = {}
    for precision in ("f32", "bf16"):
        for strategy in ("bucketed", "pipelined"):
            name = f"{OURS} {precision} {strategy}"
            memory[name] = []
            contenders[name] = functools.partial(heddle, options, strategy, precision, memory[name])
    memory["DI-engine"], full = [], []
    contenders["DI-engine"] = functools.partial(di_engine, memory["DI-engine"], full)
    case = f"dqn: Pong end to end, 2 cores, updates {WARM} to {WARM + UPDATES}"
    measured = report(options, case, "updates/s", contenders)
    for what, held in (("memory", memory), ("memory, replay full", {**memory, "DI-engine": full})):
        report(options, f"{case}: {what}", "MB",
               {name: iter(held[name]).__next__ for name in measured})
