#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two nodes joined by TCP: a rank that dies, a rank that is stopped, a node that dies with all its ranks and one whose
launcher is told to end. Each is told by its name within the heartbeat's time, and no process is left."""

import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import CONFIG, ENDLESS, check, end, environment, free_port, is_running, start, wait_for_ranks
from runner import PATIENCE, SECRET, Scratch, sets

HEARTBEAT_S = 2


def begin(directory):
    """Two launchers with two ranks each, which train; and their ranks by number."""
    options = ["--nproc-per-node", "2", "--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
               CONFIG, "--dir", directory, "--quiet", *ENDLESS,
               *sets(runtime__transport="tcp", runtime__heartbeat_timeout_s=HEARTBEAT_S, world__shards=4)]
    env = environment(HEDDLE_SECRET=SECRET)
    launchers = [start("launch", "--node-rank", str(node), *options, env=env) for node in range(2)]
    ranks = {}
    for launcher in launchers:
        ranks.update(wait_for_ranks(launcher, directory))
    return launchers, ranks


def finish(name, launchers, ranks, expected, codes, seconds):
    """Every launcher ends soon; one of them says what is expected."""
    ends = [end(launcher, 10) for launcher in launchers]
    text, took = "".join(text for _, text, _ in ends), max(took for _, _, took in ends)
    check(expected in text, f"{name}: nobody says '{expected}': {text}")
    check([code for code, _, _ in ends] == codes, f"{name}: {[code for code, _, _ in ends]}, not {codes}: {text}")
    check(took < seconds * PATIENCE, f"{name}: {took:.1f} s: {text}")
    check(not any(map(is_running, ranks.values())), f"{name}: a rank is left")
    print(f"{name}: told after {took:.1f} s", flush=True)


def lose(name, choose, number, expected, codes, seconds):
    """choose(launchers, ranks): the processes that get the signal."""
    with Scratch() as scratch:
        launchers, ranks = begin(scratch("run"))
        time.sleep(0.2)
        for pid in choose(launchers, ranks):
            # Ranks die with their launcher, maybe before their turn comes.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        finish(name, launchers, ranks, expected, codes, seconds)


def main():
    kill, stop, term = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM
    lose("a rank dies", lambda _, ranks: [ranks[3]], kill, "rank 3 (pid", [1, 1], 3)
    lose("rank 0 dies", lambda _, ranks: [ranks[0]], kill, "rank 0 (pid", [1, 1], 3)
    lose("a rank is stopped", lambda _, ranks: [ranks[2]], stop, "rank 2 has not answered for", [1, 1],
         HEARTBEAT_S + 8)
    lose("a node dies", lambda launchers, ranks: [launchers[1].pid, ranks[2], ranks[3]], kill,
         "lost a rank that this launcher does not run", [1, 128 + kill], 3)
    lose("a launcher is told to end", lambda launchers, _: [launchers[1].pid], term, "continues from this checkpoint",
         [75, 75], 10)


main()
