# SPDX-License-Identifier: Apache-2.0
"""test_guard.py HANG: exit codes, time limit, stacks and left-over processes of tests/harness/guard;
HANG is the program of hang.c."""

import os
import subprocess
import sys
import time

GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard")


def guard(limit, *command, path=os.environ["PATH"]):
    done = subprocess.run([sys.executable, GUARD, str(limit), *command], text=True, timeout=60,
                          env=dict(os.environ, PATH=path), stdout=subprocess.PIPE)
    return done.returncode, done.stdout


def check(condition, message):
    if not condition:
        sys.exit("failed: " + message)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def passes_exit_codes():
    for code in (0, 1, 77, 130):
        check(guard(10, "/bin/sh", "-c", f"exit {code}")[0] == code, f"exit code {code}")
    check(guard(10, "/bin/sh", "-c", "kill -SEGV $$")[0] == 128 + 11, "a signal is 128 + number")


def shows_stacks_and_kills(hang):
    code, output = guard(1, hang)
    check(code == 124, f"exit code {code} after a hang")
    pids = [line.split()[4].rstrip(":") for line in output.splitlines() if "--- stacks of" in line]
    check(len(pids) == 2, f"both processes are shown:\n{output}")
    check(not any(map(alive, pids)), "nothing is left running")
    if "ptrace" not in output:  # containers may forbid it
        check("wait_for_nothing" in output and "main" in output, f"stacks by name:\n{output}")


def works_without_gdb(hang):
    code, output = guard(1, hang, path="/nonexistent")
    check(code == 124 and "no gdb here" in output, f"without gdb:\n{output}")


def finds_processes_left_behind():
    code, output = guard(10, "/bin/sh", "-c", "(sleep 300 & echo $!) ; exit 0")
    check(code == 125 and "left process" in output, f"exit code {code}:\n{output}")
    check(not alive(output.split()[0]), "the process that was left behind is killed")


def is_stopped_by_a_signal(hang):
    running = subprocess.Popen([sys.executable, GUARD, "60", hang])
    with open(f"/proc/{running.pid}/task/{running.pid}/children", encoding="utf-8") as file:
        children = ""
        while not children:
            time.sleep(0.02)
            file.seek(0)
            children = file.read()
    running.terminate()
    check(running.wait(timeout=30) == 128 + 15, "exit code after SIGTERM")
    check(not any(map(alive, children.split())), "SIGTERM ends the test too")


if __name__ == "__main__":
    passes_exit_codes()
    shows_stacks_and_kills(sys.argv[1])
    works_without_gdb(sys.argv[1])
    finds_processes_left_behind()
    is_stopped_by_a_signal(sys.argv[1])
