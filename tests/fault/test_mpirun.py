#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that dies under mpirun: the others leave within seconds, naming it and the collective in which
they are, whether they exchange by messages or through shared memory. One that stops is named by the
watchdog, whose exit code is the run's."""

import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nodes import mpi_environment, need_mpi  # noqa: E402
from processes import ENDLESS  # noqa: E402
from runner import CONFIG, PATIENCE, RUNNER, Scratch, check, sets  # noqa: E402


def ranks_of(mpirun):
    """Process ids by rank."""
    found = {}
    with open(f"/proc/{mpirun.pid}/task/{mpirun.pid}/children", encoding="ascii") as file:
        for pid in file.read().split():
            with open(f"/proc/{pid}/environ", "rb") as environ:
                rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", environ.read())
            if rank:
                found[int(rank.group(1))] = int(pid)
    return found


def wait_for_training(directory, timeout=60):
    end = time.monotonic() + timeout
    log = os.path.join(directory, "log/serial")
    while not (os.path.isdir(log) and os.listdir(log)):
        check(time.monotonic() < end, "training does not begin")
        time.sleep(0.05)
    time.sleep(1.5)


def disturb(directory, transport, victim, number, within_s, **keys):
    """Exit code and output of a run one of whose ranks gets a signal."""
    command = ["mpirun", "-n", "2", RUNNER, "run", CONFIG, "--dir", directory, "--quiet", *ENDLESS,
               *sets(runtime__transport=transport, **keys)]
    run = subprocess.Popen(command, env=mpi_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True)
    try:
        wait_for_training(directory)
        ranks = ranks_of(run)
        check(len(ranks) == 2, f"ranks {ranks}")
        os.kill(ranks[victim], number)
        begin = time.monotonic()
        output = run.communicate(timeout=30 * PATIENCE)[0]
        took_s = time.monotonic() - begin
    finally:
        run.kill()
        run.wait()
    check(took_s < within_s * PATIENCE, f"the others took {took_s:.1f} s to leave: {output}")
    return run.returncode, output, took_s


def kill_one(directory, transport, victim):
    code, output, took_s = disturb(directory, transport, victim, signal.SIGKILL, 5)
    check(code != 0, f"exit code 0: {output}")
    named = re.search(rf"error: rank {victim} .*died.*#\d+ \S+", output)
    check(named, f"no survivor names rank {victim} and a collective: {output}")
    print(f"{transport}: {took_s:.2f} s; {named.group(0)}")


def stop_one(directory):
    code, output, took_s = disturb(directory, "mpi", 1, signal.SIGSTOP, 15, runtime__watchdog_s=5)
    check(code == 3, f"exit code {code}, not the watchdog's: {output}")
    named = re.search(r"error: no progress.*rank 0 waits in #\d+ .+ since \d+ s; rank 1 last.*", output)
    check(named, f"the watchdog does not name rank 1 and the collective: {output}")
    print(f"stopped: {took_s:.2f} s; {named.group(0)}")


def main():
    need_mpi()
    with Scratch() as scratch:
        for number, (transport, victim) in enumerate((("mpi", 1), ("mpi", 0), ("auto", 1))):
            kill_one(scratch(f"run{number}"), transport, victim)
        stop_one(scratch("stopped"))


main()
