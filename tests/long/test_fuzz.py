#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Twenty minutes of fuzzing, shared by all targets."""

import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 1200


def main():
    targets = [os.path.basename(path)[len("fuzz_"):-len(".c")]
               for path in sorted(glob.glob(os.path.join(ROOT, "tests/fuzz/fuzz_*.c")))]
    failed = []
    for target in targets:
        done = subprocess.run([os.path.join(ROOT, "scripts/fuzz"), target, str(SECONDS // len(targets))], check=False)
        if done.returncode == 77:
            sys.exit(77)
        if done.returncode != 0:
            failed.append(target)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


main()
