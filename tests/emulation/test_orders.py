#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_orders.py [--all]: the tests for GPUs pass in other orders of threads, blocks and sums than that of
emulated/test_*: in the opposite one, and in random ones from the seed HD_FAULT_SEED (default: the commit's) on. Without
--all a share of the suites is tried. HD_ORDERS=n: how many random orders (20 with --all, else 1)."""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import check, draw_seed, environment, skip  # noqa: E402
from ways import take_share  # noqa: E402

BUILD = os.path.join(os.path.dirname(os.environ.get("HD_RUNNER_EMULATED", "")), "..")
LEFT_OUT = ("kernels/net/test_conv_net",)  # its kernels are those of test_net_cuda, and it takes long


def list_suites():
    """[(program, suite)] of all tests for GPUs."""
    for program in sorted(glob.glob(os.path.join(BUILD, "test_*_emulated"))):
        listed = subprocess.run([program, "--cuda", "--list"], text=True, capture_output=True, check=True).stdout
        for suite in dict.fromkeys(line.partition(":")[0] for line in listed.splitlines()):
            if suite not in LEFT_OUT:
                yield program, suite


def run(program, suite, order):
    done = subprocess.run([program, "--cuda", suite], env=environment(HD_EMULATED_ORDER=order), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    told = f"HD_EMULATED_ORDER={order} {os.path.basename(program)} --cuda {suite}"
    check(done.returncode in (0, 77), f"{told}\n{done.stdout}")


def main(everything):
    suites = list(list_suites())
    if not suites:
        skip("there is no CUDA toolkit, so nothing of the emulation was built")
    first, n = draw_seed() % (1 << 31), int(os.environ.get("HD_ORDERS", "20" if everything else "1"))
    tried = [(*suite, order) for order in ("reverse", *range(first, first + n)) for suite in suites]
    tried = tried if everything else take_share(tried, "orders", of=8)
    for program, suite, order in tried:
        run(program, suite, order)
    print(f"{len(tried)} of {(1 + n) * len(suites)} suites in other orders")


main("--all" in sys.argv[1:])
