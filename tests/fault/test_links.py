#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links, pipes and folders in place of a run directory's files: a command that would read or write there names them
and ends, where opening them would wait for ever or reach a file elsewhere. Of logs that a run continues, none is cut
before all were looked at. A config on the command line may be a pipe."""

import os
import re
import shutil
import signal
import subprocess
import sys

from processes import CONFIG, end, start_endless, wait_for_ranks
from runner import RUNNER, Scratch, check, environment, sets, train
from ways import take_share

KEYS = dict(env__stop_value="1e9", max_train_iter=20, world__shards=2)
SECONDS = 60  # of a command that waits for ever
READERS = {"total_config.yaml": ("report", "eval"), "result.json": ("report", "eval"), "log/metrics.jsonl": ("report",),
           "trace.json": ("report",), "log/serial/EVENTS": ("report",), "ckpt/iteration_20/policy.safetensors": ("eval",)}


def call(*command, **how):
    return subprocess.run([RUNNER, *command], env=environment(), capture_output=True, text=True, timeout=SECONDS,
                          check=False, **how)


def refused(path, *command):
    done = call(*command)
    check(done.returncode == 2 and path in done.stderr, f"{command}: {done.returncode} {done.stderr}")


def put(path, kind):
    """Puts something else in place of a file or folder; returns what a link leads to."""
    outside = path.rstrip("/") + ".outside"
    os.rename(path, outside)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "link":
        os.symlink(outside, path)
    else:
        os.link(outside, path)
    return outside


def read_all(folder):
    """The content of all files by path; links are not followed."""
    found = {}
    for where, _, names in os.walk(folder):
        for path in (os.path.join(where, name) for name in names):
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found


def events_of(directory):
    (name,) = os.listdir(os.path.join(directory, "log/serial"))
    return "log/serial/" + name


def check_reads(scratch, run):
    cases = [(file, kind) for file in READERS for kind in ("pipe", "link", "folder")]
    for file, kind in take_share(cases, "reads"):
        directory = scratch("read")
        shutil.copytree(run, directory)
        path = os.path.join(directory, file.replace("log/serial/EVENTS", events_of(run)))
        put(path, kind)
        for command in READERS[file]:
            refused(path, command, directory)
        if file == "total_config.yaml":
            refused(path, "run", "--resume", directory)
            refused(path, "calibrate", CONFIG, "--from", directory)
        shutil.rmtree(directory)


def check_named(scratch, run):
    """What the user names may be a link to a file, but no pipe."""
    pipe, link = scratch("pipe.safetensors"), scratch("link.safetensors")
    os.mkfifo(pipe)
    os.symlink(os.path.join(run, "ckpt/best/policy.safetensors"), link)
    refused(pipe, "eval", CONFIG, "--weights", pipe)
    refused(pipe, "eval", run, "--weights", pipe)
    refused(pipe, "simulate", CONFIG, "--calibration", pipe)
    refused(pipe, "run", CONFIG, "--dir", scratch("unused"), "--set", f"graph={pipe}")
    done = call("eval", CONFIG, "--weights", link, "--episodes", "1")
    check(done.returncode == 0, done.stderr)
    with open(CONFIG, encoding="utf-8") as file:
        text = re.sub("(graph|strategy): ", rf"\1: {os.path.dirname(CONFIG)}/", file.read())
    done = call("graph", "/dev/stdin", input=text)
    check(done.returncode == 0, f"a config from a pipe: {done.stderr}")


def check_resume(scratch, run):
    """A log or a folder that leads elsewhere: refused before a byte is changed, there or here."""
    logs = ["log/evaluator/evaluator_logger.txt", "log/metrics.jsonl", events_of(run)]
    cases = [(log, kind) for log in logs for kind in ("link", "hard link", "pipe")]
    cases += [(folder, "link") for folder in ("log", "log/serial", "log/evaluator", "ckpt", "ckpt/best", "ckpt/state")]
    for file, kind in take_share(cases, "resumes"):
        directory = scratch("resumed")
        shutil.copytree(run, directory, symlinks=True)
        path = os.path.join(directory, file)
        put(path, kind)
        before = read_all(directory)
        refused(path, "run", CONFIG, "--resume", directory, "--quiet", *sets(**dict(KEYS, max_train_iter=40)))
        check(read_all(directory) == before, f"{kind} {file}: something was changed")
        shutil.rmtree(directory)


def check_shared(scratch):
    """A second run in the directory of another, by a link to it."""
    directory, other = scratch("first"), scratch("second")
    process = start_endless(directory, ranks=2)
    wait_for_ranks(process, directory)
    os.symlink(directory, other)
    done = call("run", CONFIG, "--resume", other, "--quiet", "--set", "env.stop_value=1e9", "--set", f"max_train_iter={10**12}")
    check(done.returncode == 2 and "another run is writing into" in done.stderr, done.stderr)
    process.send_signal(signal.SIGTERM)
    code, text, _ = end(process, 60)
    check(code == 75, text)


def main():
    with Scratch() as scratch:
        run = scratch("run")
        train(run, "--trace", ranks=1, **dict(KEYS, runtime__checkpoint_interval_s=0.01))
        check_reads(scratch, run)
        check_named(scratch, run)
        check_resume(scratch, run)
        check_shared(scratch)
    print("nothing in a run directory was followed or waited for")


if __name__ == "__main__":
    sys.exit(main())
