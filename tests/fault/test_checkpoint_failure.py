#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that cannot write its part of a checkpoint costs this checkpoint and nothing else: one warning names
rank, file and cause, the next checkpoint is tried, and the run ends as if nothing had been."""

import os
import re
import resource
import signal
import subprocess
import sys
import time

from processes import CONFIG, end, start, wait_for_ranks, wait_for_text
from runner import SECRET, Scratch, call, check, environment, free_port, result, sets, train

KEYS = dict(env__stop_value="1e9", max_train_iter=3000, world__shards=2)
OFTEN = dict(KEYS, runtime__checkpoint_interval_s=0.1)
ENDLESS = dict(OFTEN, max_train_iter=10**12)


def newest(directory):
    try:
        return os.readlink(os.path.join(directory, "ckpt/state/latest"))
    except OSError:
        return None


def wait_for_checkpoint(directory, process, after=None):
    for _ in range(3000):
        if newest(directory) != after:
            return newest(directory)
        check(process.poll() is None, "the run ended early")
        time.sleep(0.01)
    sys.exit("failed: no checkpoint came")


def limit(pid, size):
    """Lets no file grow beyond so many bytes; -1: as before."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size if size >= 0 else most, most))


def begin(directory, keys):
    process = start("launch", "--nproc-per-node", "2", CONFIG, "--dir", directory, "--quiet", *sets(**keys))
    pids = wait_for_ranks(process, directory)
    wait_for_checkpoint(directory, process)
    return process, pids


def check_warning(text):
    warnings = re.findall(r"warning: the checkpoint of iteration (\d+) could not be written by rank 1: "
                          r"\S*iteration_\d+\.part/\S+ cannot be written: File too large; training continues", text)
    check(warnings and len(warnings) == len(set(warnings)), text)
    check(text.count("File too large") == len(warnings), text)


def check_own_disk(scratch):
    """Ranks that see other directories write no checkpoint, and a stopped run says so."""
    port, ranks = free_port(), []
    for rank in range(2):
        os.mkdir(scratch(f"disk{rank}"))
        env = environment(RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2, MASTER_PORT=port,
                          MASTER_ADDR="127.0.0.1", HEDDLE_SECRET=SECRET)
        options = sets(**ENDLESS, exp_name="own")
        ranks.append(start("run", CONFIG, "--quiet", *options, env=env, cwd=scratch(f"disk{rank}")))
    said = wait_for_text(ranks[0], "could not be written by rank 1: .* all ranks need to see the run directory")
    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    code, text, _ = end(ranks[0], 60)
    check(code == 75 and "no checkpoint could be written: own has none, so that --resume begins at the start" in text, said + text)
    check(end(ranks[1], 60)[0] == 75, "rank 1 is not stopped")


SLOW = """
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int fd)
{
    const char *rank = getenv("RANK");
    if (rank && *rank == '1')
        usleep(300000);
    return (int)syscall(SYS_fsync, fd);
}
"""


def check_slow_disk(scratch):
    """What a rank has not written by checkpoint_timeout_s is given up."""
    library = scratch("slow.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=SLOW, text=True, check=True)
    for timeout_s in (1, 300):
        directory, options = scratch(f"slow{timeout_s}"), sets(**ENDLESS, runtime__checkpoint_timeout_s=timeout_s)
        process = start("launch", "--nproc-per-node", "2", CONFIG, "--dir", directory, "--quiet", *options,
                        env=environment(LD_PRELOAD=library))
        if timeout_s == 1:
            text = wait_for_text(process, "has not written its files within 1 s")
            check(newest(directory) is None, text)
        else:
            wait_for_checkpoint(directory, process)
        process.send_signal(signal.SIGINT)
        end(process, 100)


def main():
    with Scratch() as scratch:
        reference = train(scratch("reference"), ranks=2, **KEYS)["param_hash"]

        process, pids = begin(scratch("to_the_end"), OFTEN)
        limit(pids[1], 1)
        code, text, _ = end(process, 100)
        check(code == 0, text)
        check_warning(text)
        check(result(scratch("to_the_end"))["param_hash"] == reference, "another hash")

        process, pids = begin(scratch("limited"), ENDLESS)
        limit(pids[1], 1)
        said = wait_for_text(process, "could not be written by rank 1")
        before = newest(scratch("limited"))
        time.sleep(0.3)
        check(newest(scratch("limited")) == before, "a rank that cannot write left a checkpoint")
        limit(pids[1], -1)
        wait_for_checkpoint(scratch("limited"), process, before)
        limit(pids[1], 1)
        process.send_signal(signal.SIGTERM)
        code, text, _ = end(process, 60)
        text = said + text
        check(code == 75 and "no checkpoint could be written: --resume" in text, text)
        check_warning(text)
        call("run", CONFIG, "--resume", scratch("limited"), "--quiet", *sets(**dict(KEYS, max_train_iter=1)))
        check_own_disk(scratch)
        check_slow_disk(scratch)
    print("a rank that cannot write: a warning, and the same bits")


if __name__ == "__main__":
    main()
