#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hundred attacks by another user of the host while a run starts, at all its ports, and more while it runs: the same
bits each time. Prints how long runs took with attacks and without, in turns."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../fault"), os.path.join(HERE, "..")]
import attacks  # noqa: E402
from processes import CONFIG, build_library, check, children, end, environment, free_port, start  # noqa: E402
from runner import SECRET, Scratch, result, sets, skip, train  # noqa: E402

ROUNDS = int(os.environ.get("HD_ROUNDS", "100"))
TURNS = int(os.environ.get("HD_TURNS", "9"))
SHORT = dict(env__stop_value="1e9", max_train_iter=40)
LONG = dict(env__stop_value="1e9", max_train_iter=2500)


def silent(port):
    time.sleep(0.3 * bool(attacks.hold(port, 200)))


def half_said(port):
    time.sleep(0.3 * bool(attacks.hold(port, 50, b"HEDL" * 20)))


def dripped(port):
    attacks.drip(port, 20, 0.5)


def flooded(port):
    attacks.flood(port, 0.3)


KINDS = (*attacks.BYTES, *attacks.HELLOS, silent, half_said, dripped, flooded)


def by_hand(rank, port, directory, env=(), **keys):
    env = environment(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1, MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=port, HEDDLE_SECRET=SECRET, **dict(env))
    return start("run", CONFIG, "--dir", directory, "--quiet", *sets(runtime__transport="tcp", **keys), env=env)


def wait_all(pids):
    for pid in pids:
        check(os.waitpid(pid, 0)[1] == 0, "an attack failed")


def meet_by_hand(call, attack, directory):
    """Attacks rank 0's port before rank 1 joins and while it does."""
    port = free_port()
    ranks = [by_hand(0, port, directory, **SHORT)]
    while not attacks.listening_ports(ranks[0].pid):
        check(ranks[0].poll() is None, "rank 0 has ended")
        time.sleep(0.002)
    return [*ranks, by_hand(1, port, directory, **SHORT)], [call(attack, port)]


def meet_linking(call, attack, directory):
    """Attacks the port at which rank 0 listens for its partner, which is late."""
    port, library = free_port(), build_library(f"{directory}.so", attacks.LATE_HELLO)
    ranks = [by_hand(rank, port, directory, env=dict(LD_PRELOAD=library, LATE_US=300000), **SHORT) for rank in range(2)]
    ports = set()
    while not ports and ranks[0].poll() is None:
        ports = attacks.listening_ports(ranks[0].pid) - {port}
    return ranks, [call(attack, port) for port in ports]


def meet_launched(call, attack, directory):
    """Attacks the port of a launcher as soon as it is seen."""
    launcher = start("launch", "--nproc-per-node", "2", CONFIG, "--dir", directory, "--quiet",
                     *sets(runtime__transport="tcp", **SHORT))
    ports = set()
    while not ports and launcher.poll() is None:
        ports = {port for pid in (launcher.pid, *children(launcher)) for port in attacks.listening_ports(pid)}
    return [launcher], [call(attack, port) for port in ports]


def check_start(reference):
    """Every other round attacks as this very user."""
    for number in range(ROUNDS):
        attack, meet = KINDS[number % len(KINDS)], (meet_by_hand, meet_linking, meet_launched)[number % 3]
        with Scratch() as scratch:
            runs, attackers = meet(attacks.as_nobody if number % 2 == 0 else attacks.as_myself, attack, scratch("run"))
            for run in runs:
                code, text, _ = end(run, 60)
                check(code == 0, f"round {number}, {attack.__name__}: exit code {code}: {text}")
            wait_all(attackers)
            check(result(scratch("run"))["param_hash"] == reference, f"round {number}, {attack.__name__}: other bits")
    print(f"{ROUNDS} attacks at the start: same bits")


def attack_for_ever(port):
    """Attacks the port at which rank 0 listened, thirty times a second."""
    for number in range(10**9):
        try:
            KINDS[number % len(attacks.BYTES + attacks.HELLOS)](port)
        except OSError:
            pass
        time.sleep(1 / 30)


def run_once(attacked):
    """Returns the hash, and the seconds that training took."""
    port = free_port()
    with Scratch() as scratch:
        ranks = [by_hand(rank, port, scratch("run"), **LONG) for rank in (0, 1)]
        while not os.path.exists(scratch("run/log/evaluator")):
            check(ranks[0].poll() is None, "rank 0 has ended")
            time.sleep(0.005)
        begin = time.monotonic()
        attacker = attacks.as_nobody(attack_for_ever, port) if attacked else None
        for rank in ranks:
            code, text, _ = end(rank, 300)
            check(code == 0, f"{code}: {text}")
        seconds = time.monotonic() - begin
        if attacker:
            os.kill(attacker, 9)
            os.waitpid(attacker, 0)
        return result(scratch("run"))["param_hash"], seconds


def check_running():
    times, hashes = {False: [], True: []}, set()
    for turn in range(2 * TURNS):
        attacked = turn % 2 == 1
        found, seconds = run_once(attacked)
        hashes.add(found)
        times[attacked].append(seconds)
    check(len(hashes) == 1, f"other bits while attacked: {hashes}")
    plain, attacked = min(times[False]), min(times[True])  # other load only makes longer
    count = int(30 * sum(times[True]))
    print(f"about {count} attacks while running: same bits, {attacked:.2f} s instead of {plain:.2f} s (best of {TURNS} in turns)")


def main():
    if os.geteuid() != 0:
        skip("only root can attack as another user")
    with Scratch() as scratch:
        reference = train(scratch("reference"), **SHORT)["param_hash"]
    check_start(reference)
    check_running()


main()
