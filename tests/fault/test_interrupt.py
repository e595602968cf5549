#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP end a run with a checkpoint, however often and to whom they are sent, and leave
nothing that a later run trips over; a second Ctrl-C ends it at once; a rank that stands still is found by the
watchdog and costs its peer little."""

import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import (CONFIG, ENDLESS, check, check_left, children, cpu_seconds, disturbed, end,  # noqa: E402
                       environment, errors, is_running, sets, start, start_endless, wait_for_ranks)
from runner import PATIENCE, ROOT, RUNNER, Scratch, call, draw_seed, reduce, result  # noqa: E402

SEED = draw_seed()
MOMENTS = reduce(20)


def interrupt(number, rng, scratch):
    """SIGINT at a random moment of the first 0.3 s: to the launcher, to its whole process group as a
    terminal does, or to a single rank without a launcher."""
    how = ("launcher", "group", "single")[number % 3]
    command = ["run"] if how == "single" else ["launch", "--nproc-per-node", "2"]
    run = start(*command, *disturbed(number), "--quiet", *ENDLESS, cwd=scratch.path)
    time.sleep(rng.uniform(0, 0.3))
    pids = children(run)
    if how == "group":
        os.killpg(run.pid, signal.SIGINT)
    else:
        run.send_signal(signal.SIGINT)
    code, text, seconds = end(run, 2)
    check(code == 130, f"moment {number}, {how}: exit code {code}: {text}")
    check(not errors(text), f"moment {number}, {how}: {text}")
    check_left(scratch.path, pids)
    return seconds


def check_interrupts():
    rng = random.Random(SEED)
    with Scratch() as scratch:
        times = [interrupt(number, rng, scratch) for number in range(MOMENTS)]
        runs = len(os.listdir(scratch.path))
        call("run", CONFIG, "--quiet", *sets(max_train_iter=20), cwd=scratch.path)
        names = sorted(os.listdir(scratch.path), key=lambda name: os.path.getmtime(scratch(name)))
        check(len(names) == runs + 1 and result(scratch(names[-1]))["train_iter"] >= 20,
              "a later run trips over what an interrupted one left")
    print(f"{MOMENTS} interrupts (HD_FAULT_SEED={SEED}): exit code 130 within {max(times):.2f} s")


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 75, signal.SIGHUP: 75}


def wait_for_log(run, scratch):
    while not os.path.exists(scratch("run/log/evaluator")):
        if run.poll() is not None:
            sys.exit(f"failed: the run ended early: {run.stderr.read()}")
        time.sleep(0.01)


def check_stops(run, scratch, number, how):
    """The run ends soon, with a checkpoint, and says which."""
    code, text, _ = end(run, 5)
    check(code == SIGNALS[number] and not errors(text), f"{how}: {code}: {text}")
    check("--resume " + scratch("run") + " continues from this checkpoint" in text, f"{how}: {text}")
    check(os.path.exists(scratch("run/ckpt/state/latest/manifest.json")), f"{how}: no checkpoint: {text}")


def check_signals():
    """To a run alone, to a launcher, and as by `timeout` to a process and then to its group."""
    for number in SIGNALS:
        for ranks in (1, 2):
            with Scratch() as scratch:
                run = start_endless(scratch("run"), ranks=ranks)
                wait_for_log(run, scratch)
                run.send_signal(number)
                os.killpg(run.pid, number)
                check_stops(run, scratch, number, f"{number.name} with {ranks} ranks")
    for number in range(4):  # at any moment of a start
        with Scratch() as scratch:
            run = start("run", CONFIG, "--dir", scratch("run"), *ENDLESS)
            time.sleep(0.04 + 0.03 * number)
            run.terminate()
            os.killpg(run.pid, signal.SIGTERM)
            code, text, _ = end(run, 5)
            loading = code == 128 + signal.SIGTERM and not os.path.exists(scratch("run"))  # before it can catch any
            check((code == 75 or loading) and not errors(text), f"SIGTERM at the start: {code}: {text}")
    print("SIGINT, SIGTERM and SIGHUP leave a checkpoint, also when they are sent twice")


def stop_at_start(number, rng, scratch):
    """SIGTERM to the launcher, or to one of its ranks, which does not catch it before its program runs."""
    directory = scratch(f"start{number}")
    run = start_endless(directory)
    while len(pids := children(run)) < 2:
        check(run.poll() is None, "the launcher ended early")
    time.sleep(rng.uniform(0, 0.05))
    os.kill([run.pid, *pids][number % 3], signal.SIGTERM)
    code, text, _ = end(run, 3)
    check(code == 75 and not errors(text), f"SIGTERM in the first moments, {number}: {code}: {text}")
    check_left(scratch.path, pids)


def check_starts():
    rng = random.Random(SEED)
    with Scratch() as scratch:
        for number in range(reduce(36)):
            stop_at_start(number, rng, scratch)
    print(f"{reduce(36)} times SIGTERM in the first 50 ms of ranks: exit code 75")


# The first iteration learns, and lasts half a minute; none of its tasks lasts long.
LONG = dict(policy__collect__n_sample=64, policy__learn__update_per_collect=16000, policy__model__encoder_hidden_size_list="[384, 384, 384]")


def check_long_iteration():
    """An iteration that lasts beyond the time for an orderly end has no checkpoint, and ends with the same code."""
    for ranks, one in ((1, False), (2, False), (2, True)):  # one: it is sent to rank 1 alone
        with Scratch() as scratch:
            run = start_endless(scratch("run"), *sets(**LONG, runtime__sigterm_grace_s=2), ranks=ranks)
            wait_for_log(run, scratch)
            os.kill(wait_for_ranks(run, scratch("run"))[1] if one else run.pid, signal.SIGTERM)
            code, text, seconds = end(run, 6)
            check(code == 75, f"{ranks} ranks: {code}: {text}")
            check(re.search(r"stopped by signal 15 \(Terminated\) in an iteration that has lasted [\d.]+ s, and checkpoints come "
                            rf"between iterations: {scratch('run')} has none", text), text)
            found = result(scratch("run"))
            check((found["reason"], found["detail"]) == ("stopped", "SIGTERM"), f"{found}")
    print(f"an iteration that does not end is told, after {seconds:.1f} s")


def check_announcement():
    for ranks in (1, 2):
        with Scratch() as scratch:
            run = start(*(["run"] if ranks == 1 else ["launch", "--nproc-per-node", "2"]), CONFIG, "--dir",
                        scratch("run"), *ENDLESS)
            wait_for_log(run, scratch)
            run.send_signal(signal.SIGINT)
            text = end(run, 5)[1]
            check(text.count("stopping after this iteration, with a checkpoint; Ctrl-C again stops at once") == 1,
                  f"{ranks} ranks: {text}")
    print("Ctrl-C says what it does")


def check_nohup():
    with Scratch() as scratch:
        run = start_endless(scratch("run"), ignored=signal.SIGHUP)
        wait_for_log(run, scratch)
        run.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        check(run.poll() is None, "nohup: a hang-up ended the run")
        run.terminate()
        check_stops(run, scratch, signal.SIGTERM, "nohup")
    print("a hang-up that is ignored stays ignored")


def check_starter():
    """A rank whose launcher is killed stops with a checkpoint; a run that a shell has started outlives the shell."""
    ranks = dict(RANK=0, WORLD_SIZE=1, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1)
    for name, variables, stops in (("torchrun", dict(TORCHELASTIC_RUN_ID="job", **ranks), True),
                                   ("mpirun", dict(OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1,
                                                   OMPI_COMM_WORLD_LOCAL_RANK=0, OMPI_COMM_WORLD_LOCAL_SIZE=1), True),
                                   ("a shell", ranks, False)):
        with Scratch() as scratch:
            command = [RUNNER, "run", CONFIG, "--dir", scratch("run"), "--quiet", *ENDLESS]
            shell = subprocess.Popen(["/bin/sh", "-c", '"$@" & wait', "sh", *command], stderr=subprocess.PIPE, text=True,
                                     env=environment(**variables))
            wait_for_log(shell, scratch)
            run = children(shell)[0]
            shell.kill()
            if not stops:
                time.sleep(1)
                check(is_running(run), f"{name}: the run has ended with it")
                os.kill(run, signal.SIGTERM)
            text = shell.communicate(timeout=10 * PATIENCE)[1]  # until the run has closed stderr
            check(("which started this rank, has ended" in text) == stops, f"{name}: {text}")
            check("continues from this checkpoint" in text, f"{name}: {text}")
    print("a rank stops when its launcher is killed")


def check_pixels():
    """In the middle of long tasks: a net of 14 million parameters, exchanged between the ranks. The second
    Ctrl-C does not wait for the checkpoint."""
    config = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")
    net = "policy.model.encoder_hidden_size_list=[128,128,512]"
    for seconds in (0.5, 3, 6):
        with Scratch() as scratch:
            run = start("launch", "--nproc-per-node", "2", config, "--quiet", "--set", net,
                        *sets(policy__learn__batch_size=32), cwd=scratch.path)
            time.sleep(seconds)
            pids = children(run)
            run.send_signal(signal.SIGINT)
            time.sleep(0.4)
            run.send_signal(signal.SIGINT)
            code, text, _ = end(run, 2)
            check(code == 130 and not errors(text), f"pixels after {seconds} s: {code}: {text}")
            check_left(scratch.path, pids)
    print("a second SIGINT ends training on pixels within 2 s")


def check_idle_rank():
    """While rank 0 stands still, rank 1 waits for it."""
    with Scratch() as scratch:
        launcher = start_endless(scratch("run"))
        pids = wait_for_ranks(launcher, scratch("run"))
        os.kill(pids[0], signal.SIGSTOP)
        time.sleep(0.3)
        before, begin = cpu_seconds(pids[1]), time.monotonic()
        time.sleep(2)
        share = (cpu_seconds(pids[1]) - before) / (time.monotonic() - begin)
        os.kill(pids[0], signal.SIGCONT)
        launcher.send_signal(signal.SIGINT)
        check(end(launcher, 3)[0] == 130, "after SIGCONT")
    print(f"a rank that waits uses {100 * share:.0f} % of a core")
    check(share < 0.35, "an idle rank burns its core")


def check_watchdog():
    with Scratch() as scratch:
        launcher = start_endless(scratch("run"), *sets(runtime__watchdog_s=5))
        pids = wait_for_ranks(launcher, scratch("run"))
        os.kill(pids[0], signal.SIGSTOP)
        code, text, seconds = end(launcher, 12)
        check(code == 3, f"watchdog: exit code {code}: {text}")
        check(re.search(r"rank 1 waits in #\d+ \S+", text), f"watchdog: {text}")
    print(f"the watchdog names what is late after {seconds:.1f} s:\n  {errors(text)[0]}")


def main():
    check_interrupts()
    check_signals()
    check_starts()
    check_long_iteration()
    check_announcement()
    check_nohup()
    check_starter()
    check_pixels()
    check_idle_rank()
    check_watchdog()


main()
