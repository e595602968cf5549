#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Descriptors that are closed, as under cron, an output that is full, terminals, and limits that are too low."""

import fcntl
import os
import pty
import re
import resource
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, Scratch, check, environment, result, sets  # noqa: E402

SHORT = sets(max_train_iter=20)


def call_with(prepare, *arguments, **streams):
    return subprocess.run([RUNNER, *arguments], env=environment(), text=True, timeout=60, preexec_fn=prepare,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})


def closed(*descriptors):
    def close():
        for descriptor in descriptors:
            os.close(descriptor)
    return close


def texts_in_files(directory):
    """Every file that holds what belongs on stderr."""
    for at, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                if b"results in" in file.read() and name != "report.html":
                    yield name


def check_closed():
    with Scratch() as scratch:
        for command in (["run"], ["launch", "--nproc-per-node", "2"]):
            hashes = set()
            for missing in ((0,), (1,), (2,), (0, 1, 2)):
                directory = scratch(f"{command[0]}{len(missing)}{missing[0]}")
                done = call_with(closed(*missing), *command, CONFIG, "--dir", directory, *SHORT)
                check(done.returncode == 0, f"{command} without {missing}: {done.returncode} {done.stderr}")
                check(not list(texts_in_files(directory)), f"{command} without {missing}: a message in a file")
                check(os.path.exists(os.path.join(directory, "report.html")), "no report")
                hashes.add(result(directory)["param_hash"])
            check(len(hashes) == 1, f"{command}: {hashes}")
        for command in (["keys"], ["verbs"], ["graph", CONFIG], ["trace", scratch("run30")]):
            done = call_with(closed(0, 1, 2), *command)
            check(done.returncode == 0, f"{command}: {done.returncode}")
    print("closed descriptors 0 to 2: nothing lands in another file")


def check_full():
    with Scratch() as scratch, open("/dev/full", "w", encoding="ascii") as full:
        call_with(None, "run", CONFIG, "--dir", scratch("run"), *SHORT)
        for command in (["keys"], ["verbs"], ["--help"], ["--version"], ["run", "--help"], ["graph", CONFIG],
                        ["trace", scratch("run")],
                        ["compare", scratch("run"), scratch("run"), "--out", scratch("page.html")],
                        ["eval", CONFIG, "--weights", scratch("run/ckpt/best/policy.safetensors")]):
            done = call_with(None, *command, stdout=full)
            check(done.returncode == 1 and "stdout" in done.stderr and "No space left" in done.stderr,
                  f"{command} with a full output: {done.returncode} {done.stderr}")
    print("a full output is told by every command that prints")


def limited(number, value):
    return lambda: resource.setrlimit(number, (value, value))


def check_limits():
    with Scratch() as scratch:
        for number, value, said in ((resource.RLIMIT_NOFILE, 8, "open files is limited to 8"),
                                    (resource.RLIMIT_STACK, 64 * 1024, "stack in KiB is limited to 64"),
                                    (resource.RLIMIT_STACK, 128 * 1024, "stack in KiB is limited to 128")):
            for command in (["run", CONFIG, "--dir", scratch("never")], ["launch", CONFIG], ["trace", "no"]):
                done = call_with(limited(number, value), *command)
                check(done.returncode == 2 and said in done.stderr and "ulimit -" in done.stderr,
                      f"{command}: {done.returncode} {done.stderr}")
        for number, value in ((resource.RLIMIT_NOFILE, 32), (resource.RLIMIT_STACK, 1024 * 1024)):
            done = call_with(limited(number, value), "run", CONFIG, "--dir", scratch(f"least{number}"), *SHORT)
            check(done.returncode == 0, f"with the least that is allowed: {done.stderr}")
    print("limits that are too low are told")


def on_terminal(columns, term, *arguments):
    """What a run writes on a terminal of this width."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    run = subprocess.Popen([RUNNER, *arguments], env=environment(TERM=term), stderr=follower)
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the end
            break
        written += part
        if not part:
            break
    os.close(leader)
    check(run.wait() == 0, written)
    return written.decode()


def check_terminal():
    with Scratch() as scratch:
        limits = sets(env__stop_value=1e9, max_train_iter=1500)
        shown = on_terminal(40, "xterm", "run", CONFIG, "--dir", scratch("narrow"), *limits)
        lines = [line.split("\r\n")[0] for line in shown.split("\r\x1b[K")[1:]]
        progress = [line for line in lines if line.startswith("update ")]
        check(progress and max(map(len, progress)) <= 39, f"wider than the terminal: {shown}")
        shown = on_terminal(200, "xterm", "run", CONFIG, "--dir", scratch("wide"), *limits)
        check(re.search(r"ETA <= (\d+ min )?\d+ s", shown), shown)
        shown = on_terminal(80, "dumb", "run", CONFIG, "--dir", scratch("dumb"), *limits)
        check("\x1b" not in shown and "update" in shown, f"escapes on a dumb terminal: {shown}")
    print("the progress line fits the terminal")


check_closed()
check_full()
check_terminal()
check_limits()
