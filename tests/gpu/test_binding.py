#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The thread that serves a GPU, which polls without a pause, has a core to itself where there are two or more."""

import contextlib
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, SLOWDOWN, Scratch, check, environment, find_emulated, sets, skip  # noqa: E402

RUNNER = find_emulated()
KEYS = dict(policy__cuda="true", env__stop_value="1e9", max_train_iter=10 ** 9)


def cpus_of(thread):
    """(name, the CPUs that it may use) of a thread's folder in /proc"""
    with open(os.path.join(thread, "status"), encoding="utf-8") as file:
        fields = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    parts = [part.split("-") for part in fields["Cpus_allowed_list"].split(",")]
    return fields["Name"], {cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)}


def find_threads(scratch, cpus, **keys):
    """[(name, CPUs)] of the threads of a run that may use `cpus`, once it has trained, but the emulation's."""
    process = subprocess.Popen([RUNNER, "run", CONFIG, "--quiet", "--dir", scratch("run"), *sets(**KEYS, **keys)],
                               env=environment(HD_EMULATED_DEVICES=1), stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    try:
        end = time.monotonic() + 60 * SLOWDOWN
        while not os.path.exists(scratch("run/ckpt/state/latest")):
            check(time.monotonic() < end and process.poll() is None, "the run does not train")
            time.sleep(0.1)
        folder = f"/proc/{process.pid}/task"
        threads = []
        for thread in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may have ended
                threads.append(cpus_of(os.path.join(folder, thread)))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return [thread for thread in threads if thread[0] != "emulated GPU"]


def main():
    cpus = sorted(os.sched_getaffinity(0))
    often = dict(runtime__checkpoint_interval_s=0.1)
    if len(cpus) < 2:
        skip("a GPU's thread gets no core of its own without a second one")
    for workers in ("auto", "2"):
        with Scratch() as scratch:
            threads = find_threads(scratch, cpus[:2], **often, runtime__workers=workers)
            alone = [(name, own) for name, own in threads if name.startswith("CUDA")]
            check(len(alone) == 1 and len(alone[0][1]) == 1, f"{threads}")
            check(all(own == set(cpus[:2]) - alone[0][1] for name, own in threads if not name.startswith("CUDA")),
                  f"{alone} is not alone: {threads}")
    with Scratch() as scratch:
        threads = find_threads(scratch, cpus[:1], **often)
        check(all(own == set(cpus[:1]) for _, own in threads), f"one core for all: {threads}")
    with Scratch() as scratch:
        threads = find_threads(scratch, cpus[:2], **often, runtime__executor="sequential")
        check(all(own == set(cpus[:2]) for _, own in threads), f"no thread serves the GPU: {threads}")
    print(f"{alone[0][0]} alone on CPU {alone[0][1]}, {len(threads)} threads elsewhere")


main()
