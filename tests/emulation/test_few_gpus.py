#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where there are fewer GPUs than ranks, the tests of NCCL count as skipped and say how many cases were left out."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import check, environment, skip  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(os.environ.get("HD_RUNNER_EMULATED", "")), "../test_runtime_emulated")


def main():
    if not os.path.exists(PROGRAM):
        skip("there is no CUDA toolkit, so nothing of the emulation was built")
    left_out = []
    for gpus in (0, 1, 2):
        done = subprocess.run([PROGRAM, "--cuda", "runtime/comm/test_nccl"], env=environment(HD_EMULATED_DEVICES=gpus),
                              text=True, capture_output=True)
        reason = re.search(r"^skipped: (?:.*no GPU here|(\d+) cases)", done.stdout, re.MULTILINE)
        check(done.returncode == 77 and reason, f"{gpus} GPUs: ended with {done.returncode}: {done.stdout}{done.stderr}")
        left_out.append(reason.group(1))
    check(left_out[0] is None and int(left_out[1]) > int(left_out[2]) > 0, f"{left_out}")


main()
