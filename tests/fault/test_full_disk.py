#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, of blocks or of inodes, for a while or to the end, on all ranks or by a quota on one: the
run ends as if nothing had been, with its results. Logs and best weights are written again when there is room, with
one warning that they are not and one that they are. A small tmpfs is mounted for it, where that is allowed."""

import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from processes import CONFIG, end, errors, start, wait_for_ranks, wait_for_text
from runner import SLOWDOWN, Scratch, call, check, draw_seed, result, sets, train
from test_checkpoint_failure import limit, newest, wait_for_checkpoint
from ways import take_share

KEYS = dict(env__stop_value="1e9", max_train_iter=int(3000 / SLOWDOWN), world__shards=2, policy__eval__evaluator__eval_freq=100)
OFTEN = dict(KEYS, runtime__checkpoint_interval_s=0.1 * SLOWDOWN)
LOG_WAITS = "cannot be written: .*; training continues, and up to"


class Disk:
    """A small file system."""

    def __init__(self, path, options):
        self.path, self.fillers = path, []
        os.mkdir(path)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "heddle-test", path], capture_output=True, text=True)
        self.mounted = done.returncode == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "-l", self.path], check=False)

    def fill(self, inodes):
        """Takes all that is left."""
        number = len(self.fillers)
        try:
            while True:
                self.fillers.append(os.path.join(self.path, f"filler_{number}"))
                with open(self.fillers[-1], "wb", buffering=0) as file:
                    while not inodes:
                        file.write(bytes(4096))
                number += 1
        except OSError:
            pass

    def free(self):
        for path in self.fillers:
            if os.path.exists(path):
                os.unlink(path)
        self.fillers = []


def begin_often(directory, ranks):
    """A run that writes checkpoints all the time."""
    head = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
    return start(*head, CONFIG, "--dir", directory, "--quiet", *sets(**OFTEN))


def begin(directory, ranks):
    process = begin_often(directory, ranks)
    wait_for_checkpoint(directory, process)
    return process


def check_end(process, directory, reference, before=""):
    code, text, _ = end(process, 100)
    text = before + text
    check_result(code, text, directory, reference)
    return text


def check_result(code, text, directory, reference):
    check(code == 0 and not [line for line in errors(text) if not re.search("report.html|not the directory of a run", line)], f"{code} {text}")
    check(result(directory)["param_hash"] == reference, "another hash")
    check([name for name in os.listdir(os.path.join(directory, "ckpt")) if name.startswith("iteration_")], "no weights")
    check(not os.path.exists(os.path.join(directory, ".reserve")), "the reserve is left")
    for name in ("written again", "training continues"):
        lines = [line for line in text.splitlines() if name in line and "checkpoint" not in line]
        check(len(lines) == len(set(lines)), text)


def check_disk(scratch, reference, ranks, inodes, to_the_end):
    name = f"disk_{ranks}_{inodes}_{to_the_end}"
    with Disk(scratch(name), "nr_inodes=160" if inodes else "size=24m") as disk:
        if not disk.mounted:
            return False
        directory = os.path.join(disk.path, "run")
        process = begin(directory, ranks)
        disk.fill(inodes)
        before = ""
        if not to_the_end:
            before = wait_for_text(process, LOG_WAITS)
            disk.free()
        text = check_end(process, directory, reference, before)
        if not inodes:
            check("No space left on device; training continues" in text, text)
        if not to_the_end and not inodes:
            check("is written again; nothing was dropped" in text, text)
            with open(os.path.join(directory, "log/learner/learner_logger.txt"), encoding="utf-8") as file:
                check(f"Training Iteration {KEYS['max_train_iter']}" in file.read(), "the log is not whole")
    print(f"{ranks} ranks, full of {'inodes' if inodes else 'blocks'} {'to the end' if to_the_end else 'for a while'}")
    return True


def check_quota(scratch, reference):
    """Rank 0 may write no file any more, and may again."""
    directory = scratch("quota")
    process = begin_often(directory, 2)
    pids = wait_for_ranks(process, directory)
    wait_for_checkpoint(directory, process)
    limit(pids[0], 1)
    before = wait_for_text(process, "could not be written by rank 0", LOG_WAITS)
    limit(pids[0], -1)
    text = check_end(process, directory, reference, before)
    check("is written again; nothing was dropped" in text, text)
    print("a quota on one rank")


def check_stop(scratch):
    """SIGTERM while the disk is full: the last good checkpoint is what goes on."""
    directory = scratch("stopped")
    process = start("run", CONFIG, "--dir", directory, "--quiet", *sets(**dict(OFTEN, max_train_iter=10**12)))
    wait_for_checkpoint(directory, process)
    limit(process.pid, 1)
    said = wait_for_text(process, "could not be written")
    before = newest(directory)
    process.send_signal(signal.SIGTERM)
    code, text, _ = end(process, 30)
    check(code == 75 and "no checkpoint could be written: --resume" in text and newest(directory) == before, said + text)


def check_vanished(scratch, reference):
    """Somebody removes the run directory: what is written later is there."""
    directory = scratch("vanished")
    process = begin(directory, 2)
    shutil.rmtree(directory, ignore_errors=True)
    check_end(process, directory, reference)


def check_read_only(scratch, reference):
    """The file system is mounted read-only for a while."""
    with Disk(scratch("read_only"), "size=16m") as disk:
        if not disk.mounted:
            return
        directory = os.path.join(disk.path, "run")
        process = begin(directory, 1)
        # Files that are open for writing keep a file system from that; a bind mount on top only has those that the
        # run has opened since.
        subprocess.run(["mount", "--bind", disk.path, disk.path], check=True)
        until = time.monotonic() + 20 * SLOWDOWN
        while subprocess.run(["mount", "-o", "remount,bind,ro", disk.path], stderr=subprocess.DEVNULL).returncode != 0:
            check(time.monotonic() < until, "the mount stays busy")
            time.sleep(0.01)
        before = wait_for_text(process, "Read-only file system; training continues")
        subprocess.run(["umount", "-l", disk.path], check=True)
        check_end(process, directory, reference, before)


MOMENTS = dict(OFTEN, max_train_iter=1500, policy__eval__evaluator__eval_freq=50, policy__eval__video_every=2)


def play_moment(scratch, number, reference):
    """A disk that is full from one random moment to another, of a run with logs, videos and checkpoints. Returns how
    the run ended; None: there is no right to mount a disk."""
    draw = random.Random(draw_seed() + number)
    inodes, ranks = draw.random() < 0.3, draw.choice((1, 1, 2))
    with Disk(scratch(f"moment_{number}"), "nr_inodes=250" if inodes else "size=16m") as disk:
        if not disk.mounted:
            return None
        directory, options = os.path.join(disk.path, "run"), sets(**MOMENTS)
        head = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
        process = start(*head, CONFIG, "--dir", directory, "--quiet", *options)
        time.sleep(draw.uniform(0, 1.5 * SLOWDOWN))
        disk.fill(inodes)
        time.sleep(draw.choice((0, 0.3, 1, 3)) * SLOWDOWN)
        disk.free()
        code, text, _ = end(process, 100)
        if code != 0:
            check(code == 1 and errors(text) and "No space left on device" in text, f"{number}: {code} {text}")
            check("failed on rank" not in text, f"{number}: what waits for room has ended a run: {text}")
            call("run", CONFIG, "--dir", directory, "--resume", "--quiet", *options)
        check(result(directory)["param_hash"] == reference, f"{number}: another hash: {text}")
        check(not os.path.exists(os.path.join(directory, ".reserve")), f"{number}: the reserve is left")
    return "to the end" if code == 0 else "with an error, then resumed"


def check_moments(scratch):
    """Returns whether there is a right to mount a disk."""
    reference = train(scratch("moments"), ranks=1, **MOMENTS)["param_hash"]
    numbers = take_share(range(int(os.environ.get("HD_MOMENTS", "100"))), "moments", of=12)
    ends = collections.Counter(play_moment(scratch, number, reference) for number in numbers)
    print(f"{len(numbers)} disks full at random moments, with one hash: {dict(ends)}")
    return None not in ends


def main():
    with Scratch() as scratch:
        reference = train(scratch("reference"), ranks=1, **KEYS)["param_hash"]
        check_quota(scratch, reference)
        check_stop(scratch)
        check_vanished(scratch, reference)
        check_read_only(scratch, reference)
        mounts = check_moments(scratch)
        cases = [(1, False, False), (2, False, True), (1, True, True)]
        if not all([mounts, *(check_disk(scratch, reference, *case) for case in cases)]):
            print("no right to mount a file system: a quota alone was tried")


if __name__ == "__main__":
    sys.exit(main())
