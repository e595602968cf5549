#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run says of itself: where each rank is when asked by SIGUSR1; that a rank was stopped, which is
noticed by its silence; that a task never returns."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import (CONFIG, PATIENCE, ROOT, check, check_left, end, environment, sets, start,  # noqa: E402
                       start_endless, wait_for_ranks, wait_for_text)
from runner import Scratch, skip  # noqa: E402

WHERE = r"submitted \S+.* of iteration \d+ \([\d.]+ s ago\), started \S+.*, finished \S+.*"


def ask(launcher, pid, expected):
    """Asks a rank where it is until it has heard of the others, and returns what it said."""
    said = ""
    for _ in range(5 * int(PATIENCE)):
        os.kill(pid, signal.SIGUSR1)
        said += wait_for_text(launcher, r"\n")
        if re.search(expected, said):
            return said
        time.sleep(0.2)
    sys.exit(f"{expected} is not in: {said}")


def check_frozen():
    """Rank 0 shows the others' last words; a rank that is stopped is the cause of the end."""
    with Scratch() as scratch:
        launcher = start_endless(scratch("run"), *sets(runtime__heartbeat_timeout_s=4))
        pids = wait_for_ranks(launcher, scratch("run"))
        said = ask(launcher, pids[0], rf"rank 1 \(pid {pids[1]} on \S+\), [\d.]+ s ago: {WHERE}")
        os.kill(pids[1], signal.SIGSTOP)
        code, text, seconds = end(launcher, 12)
        text = said + text
        check(code == 1, f"{code}: {text}")
        check(re.search(rf"rank 0 \(pid {pids[0]}\), now: {WHERE}", text), text)
        check("rank 1 has not answered for 4." in text, text)
        check(re.search(rf"rank 1 \(pid {pids[1]} on \S+\) last reported: {WHERE}", text), text)
        check(f"rank 1 (pid {pids[1]}) does not exit" in text, text)
        check_left(scratch("run"), pids.values())
        print(f"a stopped rank: told and over after {seconds:.1f} s, of which 4 of silence")


def check_endless_task():
    """An env that never comes back from a step holds the main thread, which is a worker too."""
    if not shutil.which("cc"):
        skip("there is no compiler `cc`")
    with Scratch() as scratch, open(os.path.join(ROOT, "kernels/envs/example/corridor.c"),
                                    encoding="utf-8") as file:
        source = file.read()
        stuck = source.replace("bool late = ++walk->steps",
                               "static int n;\n        while (++n > 500)\n            n = 1000;\n"
                               "        bool late = ++walk->steps")
        check(stuck != source, "the example has changed")
        with open(scratch("stuck.c"), "w", encoding="utf-8") as out:
            out.write(stuck)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-I", ROOT, "-o",
                        scratch("heddle_env_corridor.so"), scratch("stuck.c")], check=True)
        run = start("run", CONFIG, "--dir", scratch("run"), "--quiet",
                    *sets(env__type="corridor", env__options__cells=7, policy__model__obs_shape=7,
                          env__stop_value=1e9, runtime__watchdog_s=6, runtime__workers=1),
                    env=environment(HEDDLE_PLUGINS=scratch.path))
        code, text, seconds = end(run, 20)
        check(code == 3, f"{code}: {text}")
        check("started evaluate" in text or "started collect" in text, text)
        check("a task does not return" in text, text)
        print(f"a task that never returns: exit code 3 after {seconds:.1f} s")


def main():
    check_frozen()
    check_endless_task()


main()
