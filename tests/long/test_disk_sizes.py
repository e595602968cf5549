#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File systems of every size, from too small to begin to large enough, in blocks and in inodes: so the disk is
full at another moment of each run. A run ends as if nothing had been, or cannot begin and says that there is no
space. HD_SIZES sets how many sizes (40)."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fault"))
from processes import end, errors  # noqa: E402
from runner import Scratch, check, train  # noqa: E402
from test_full_disk import KEYS, Disk, begin_often, check_result  # noqa: E402

SIZES = int(os.environ.get("HD_SIZES", "40"))


def play(scratch, options, ranks, reference):
    """Returns whether the run could begin."""
    with Disk(scratch("disk"), options) as disk:
        if not disk.mounted:
            print("skipped: no right to mount a file system")
            sys.exit(77)
        directory = os.path.join(disk.path, "run")
        code, text, _ = end(begin_often(directory, ranks), 100)
        if code == 0:
            check_result(code, text, directory, reference)
        else:
            check(code == 1 and errors(text) and "No space left on device" in text, f"{options}: {code} {text}")
    os.rmdir(disk.path)
    return code == 0


def sweep(scratch, name, whole, ranks, reference):
    ends = [play(scratch, f"{name}={max(1, whole * i // SIZES)}", ranks, reference) for i in range(1, SIZES + 1)]
    check(ends == sorted(ends) and ends[-1], f"{name}: a larger disk does worse: {ends}")
    print(f"{ranks} ranks, {SIZES} values of {name} up to {whole}: {sum(ends)} runs trained to the end, the others "
          "could not begin", flush=True)


def main():
    with Scratch() as scratch:
        reference = train(scratch("reference"), ranks=1, **KEYS)["param_hash"]
        check(end(begin_often(scratch("whole"), 2), 100)[0] == 0, "a run with room")
        kilobytes, inodes = [int(subprocess.run(["du", *how, scratch("whole")], capture_output=True, check=True).stdout.split()[0])
                             for how in (["-sk"], ["-s", "--inodes"])]
        for ranks in (1, 2):
            sweep(scratch, "size", (kilobytes + 500) * 1024, ranks, reference)
            sweep(scratch, "nr_inodes", inodes + 10, ranks, reference)


if __name__ == "__main__":
    main()
