#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts on a host where nothing has run: eight at once, beside what an earlier program has left in TMPDIR, and with a
TMPDIR that is full or missing. Every start succeeds or names TMPDIR, and none leaves anything there."""

import os
import subprocess
import sys

from processes import CONFIG, RUNNER
from runner import TIMEOUT, Scratch, check, environment, sets
from test_full_disk import Disk

SHORT = sets(max_train_iter=5)


def start_all(n, tmp, scratch):
    """[(stderr, exit code)] of n starts at once."""
    runs = [subprocess.Popen([RUNNER, "run", CONFIG, "--quiet", "--dir", scratch(f"{os.path.basename(tmp)}_{i}"), *SHORT],
                             env=environment(TMPDIR=tmp), text=True, stderr=subprocess.PIPE) for i in range(n)]
    return [(run.communicate(timeout=TIMEOUT)[1], run.returncode) for run in runs]


def check_at_once(scratch):
    for i in range(3):
        tmp = scratch(f"fresh{i}")
        os.mkdir(tmp)
        for text, code in start_all(8, tmp, scratch):
            check(code == 0, f"of eight starts one ended with {code}: {text}")
        check(not os.listdir(tmp), f"left in TMPDIR: {os.listdir(tmp)}")
    print("eight starts at once on a fresh host")


def check_torn_files(scratch):
    """What StarPU once kept there, as a full disk, a kill or another user leaves it."""
    tmp = scratch("torn")
    bus = os.path.join(tmp, f"heddle-{os.getuid()}/starpu-0/.starpu/sampling/bus")
    os.makedirs(bus, mode=0o700)
    for name, content in (("config", b""), ("affinity", b"# GPU\tNU"), ("latency", bytes(range(256))), ("bandwidth", b"nan")):
        with open(os.path.join(bus, f"heddle.{name}"), "wb") as file:
            file.write(content)
    (text, code), = start_all(1, tmp, scratch)
    check(code == 0, f"beside torn files: {code} {text}")
    tmp = scratch("taken")
    os.mkdir(tmp)
    os.symlink("nowhere", os.path.join(tmp, f"heddle-{os.getuid()}"))
    (text, code), = start_all(1, tmp, scratch)
    check(code == 0, f"beside a folder's name that is taken: {code} {text}")
    print("beside torn files and taken names")


def check_no_room(scratch):
    """A StarPU that keeps no files needs no TMPDIR; another one says what it lacks."""
    def check_told(tmp):
        (text, code), = start_all(1, tmp, scratch)
        check(code == 0 or (code == 1 and "TMPDIR" in text and "Assert" not in text), f"{tmp}: {code} {text}")
    check_told(scratch("missing"))
    with Disk(scratch("full"), "size=64k") as disk:
        if disk.mounted:
            disk.fill(inodes=False)
            check_told(disk.path)
    print("a TMPDIR that is missing or full")


def main():
    with Scratch() as scratch:
        check_at_once(scratch)
        check_torn_files(scratch)
        check_no_room(scratch)


if __name__ == "__main__":
    sys.exit(main())
