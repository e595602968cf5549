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
LEFT_OUT = {"test_conv_net_emulated"}


def main():
    programs = [path for path in sorted(glob.glob(os.path.join(BUILD, "test_*_emulated")))
                if os.path.basename(path) not in LEFT_OUT]
    if not programs:
        print("skipped: no CUDA toolkit was there when the tests were built")
        sys.exit(77)
    failed = []
    for seed in range(FIRST, FIRST + ORDERS):
        for program in programs:
            changed = dict(CK_RUN_CASE="cuda", HD_EMULATED_ORDER=str(seed))
            if program.endswith("test_random_emulated"):
                changed["HD_EMULATED_DEVICES"] = "2"
            done = subprocess.run([program], env=dict(os.environ, **changed), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            if done.returncode:
                failed.append(f"HD_EMULATED_ORDER={seed} {os.path.basename(program)}")
                print(f"{failed[-1]}\n{done.stdout}", flush=True)
    print(f"{ORDERS} orders of {len(programs)} programs (HD_FAULT_SEED={FIRST}): {len(failed)} failed")
    sys.exit(bool(failed))


main()
