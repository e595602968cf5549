#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that dies is named in one message, the others stop, nothing is left. HD_KILLS=n: how many
(20 with HD_WHOLE=1)."""

import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import (CONFIG, check, check_left, children, end, environment, errors, free_port,  # noqa: E402
                       is_running, rank_of, sets, start, start_endless, wait_for_ranks)
from runner import PATIENCE, ROOT, SECRET, Scratch, draw_seed, reduce, result, train  # noqa: E402

SEED = draw_seed()


def kill_one_of_two(number, rng):
    """SIGKILL to a random rank at a random moment, start-up included; seconds until the end."""
    with Scratch() as scratch:
        launcher = start_endless(scratch("run"), number=number)
        time.sleep(rng.uniform(0, 0.6))
        while len(children(launcher)) < 2:
            time.sleep(0.001)
        pids = children(launcher)
        victim = rng.choice(pids)
        rank = rank_of(victim)
        os.kill(victim, signal.SIGKILL)
        code, text, seconds = end(launcher, 5)
        check(code == 1, f"exit code {code}: {text}")
        check(len(errors(text)) == 1 and f"rank {rank} (pid {victim}) was killed by signal 9" in text,
              f"rank {rank} was killed, told as: {text}")
        check_left(scratch("run"), pids)
        return seconds


def check_kills():
    rng = random.Random(SEED)
    times = [kill_one_of_two(number, rng)
             for number in range(int(os.environ.get("HD_KILLS", reduce(20))))]
    print(f"{len(times)} kills (HD_FAULT_SEED={SEED}): named, ended within {max(times):.2f} s")


def check_launcher_killed():
    with Scratch() as scratch:
        launcher = start_endless(scratch("run"))
        pids = wait_for_ranks(launcher, scratch("run")).values()
        launcher.kill()
        limit = time.monotonic() + 2 * PATIENCE
        while any(is_running(pid) for pid in pids):
            check(time.monotonic() < limit, "ranks outlive their launcher")
            time.sleep(0.01)
    print("ranks go away with their launcher")


def by_hand(rank, port, directory, *options):
    env = environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                      HEDDLE_SECRET=SECRET)
    return start("run", CONFIG, "--dir", directory, "--quiet", *options, env=env)


def check_by_hand():
    """Without our launcher: the same result; a rank that differs is refused; a dead one is named."""
    limits = sets(env__stop_value="1e9", max_train_iter=100)
    with Scratch() as scratch:
        port = free_port()
        ranks = [by_hand(r, port, scratch("hand"), *limits) for r in (1, 0)]
        for rank in ranks:
            code, text, _ = end(rank, 20)
            check(code == 0, f"by hand: {code}: {text}")
        launched = train(scratch("launched"), ranks=2, env__stop_value="1e9", max_train_iter=100)
        check(result(scratch("hand"))["param_hash"] == launched["param_hash"], "by hand: other bits")

        port = free_port()
        ranks = [by_hand(0, port, scratch("differ"), *limits),
                 by_hand(1, port, scratch("differ"), *limits, "--set", "policy.learn.batch_size=32")]
        for rank in ranks:
            code, text, _ = end(rank, 20)
            check(code == 2 and "policy.learn.batch_size is 32 on rank 1 (on " in text and
                  "but 64 on rank 0 (on " in text, f"refused: {code}: {text}")
        check(not os.path.exists(scratch("differ")), "a refused run left a directory")

        port = free_port()
        endless = sets(env__stop_value="1e9", max_train_iter=10**12)
        ranks = [by_hand(r, port, scratch("dead"), *endless) for r in (0, 1)]
        while not os.path.exists(scratch("dead/log/evaluator")):
            time.sleep(0.01)
        ranks[1].kill()
        code, text, seconds = end(ranks[0], 5)
        check(code == 1 and len(errors(text)) == 1 and "rank 1" in text, f"dead peer: {code}: {text}")
        ranks[1].communicate()
    print(f"ranks started by hand: same bits, refused when they differ, a dead one named in {seconds:.2f} s")


def check_ports():
    import socket
    with Scratch() as scratch, socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = str(server.getsockname()[1])
        taken = start("launch", "--nproc-per-node", "2", "--master-port", port, CONFIG, "--dir",
                      scratch("taken"))
        code, text, _ = end(taken, 5)
        check(code == 1 and port in text, f"taken port: {code}: {text}")
        check(not os.path.exists(scratch("taken")), "a taken port left a directory")
        free = start("launch", "--nproc_per_node=2", "--master_port=0", CONFIG, "--dir", scratch("free"),
                     "--quiet", *sets(max_train_iter=20))
        check(end(free, 20)[0] == 0, "--master_port=0")
    print("a taken port is told, port 0 is a free one")


def check_own_failure():
    """Rank 0 cannot write: all ranks end, one message tells the cause."""
    with Scratch() as scratch:
        os.mkdir(scratch("closed"), 0o500)
        if os.access(scratch("closed"), os.W_OK):
            blocked = scratch("file")
            open(blocked, "w", encoding="ascii").close()
        else:
            blocked = scratch("closed")
        failing = start("launch", "--nproc-per-node", "2", CONFIG, "--dir", os.path.join(blocked, "run"))
        code, text, _ = end(failing, 5)
        check(code not in (0, 2) and os.path.join(blocked, "run") in text, f"{code}: {text}")
    print("a failure of rank 0 ends all ranks")


def main():
    check_kills()
    check_launcher_killed()
    check_by_hand()
    check_ports()
    check_own_failure()
    more = subprocess.run([os.environ.get("HD_RUNNER", ROOT + "/build/runner"), "launch",
                           "--nproc-per-node", "3", CONFIG, *sets(world__shards=3), "--dir", "/dev/null/x"],
                          capture_output=True, text=True, check=False)
    check("3 ranks on" in more.stderr or os.cpu_count() > 2, f"no warning: {more.stderr}")


main()
