#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of kernels and tasks on the emulated GPU, in other orders of threads, blocks and sums than the one of
emulated/random. HD_ORDERS=n: how many (20); HD_FAULT_SEED: from which seed on (2)."""

import glob
import os
import subprocess
import sys

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/tests")
ORDERS = int(os.environ.get("HD_ORDERS", "20"))
FIRST = int(os.environ.get("HD_FAULT_SEED", "2"))
# Its kernels are those of test_net_cuda, and it takes long.
LEFT_OUT = {"kernels/net/test_conv_net"}


def list_suites():
    """[(program, suite)] of all tests for GPUs."""
    for program in sorted(glob.glob(os.path.join(BUILD, "test_*_emulated"))):
        listed = subprocess.run([program, "--cuda", "--list"], text=True, capture_output=True, check=True).stdout
        for suite in dict.fromkeys(line.partition(":")[0] for line in listed.splitlines()):
            if suite not in LEFT_OUT:
                yield program, suite


def main():
    suites = list(list_suites())
    if not suites:
        print("skipped: no CUDA toolkit was there when the tests were built")
        sys.exit(77)
    failed = []
    for seed in range(FIRST, FIRST + ORDERS):
        for program, suite in suites:
            done = subprocess.run([program, "--cuda", suite], env=dict(os.environ, HD_EMULATED_ORDER=str(seed)), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            if done.returncode:
                failed.append(f"HD_EMULATED_ORDER={seed} {os.path.basename(program)} --cuda {suite}")
                print(f"{failed[-1]}\n{done.stdout}", flush=True)
    print(f"{ORDERS} orders of {len(suites)} suites (HD_FAULT_SEED={FIRST}): {len(failed)} failed")
    sys.exit(bool(failed))


main()
