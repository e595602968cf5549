#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fresh_root.py [RELEASE ...]: README's first command and `scripts/test --quick` in a fresh root of each release of
Debian (trixie), from a clone, with nothing installed before."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from roots import make_root, run_in  # noqa: E402
from runner import ROOT, Scratch  # noqa: E402

COMMANDS = ("scripts/run", "scripts/test --quick")


def main(releases):
    for release in releases or ["trixie"]:
        with Scratch() as scratch:
            root = scratch(release)
            make_root(root, release)
            subprocess.run(["git", "clone", "-q", ROOT, f"{root}/heddle"], check=True)
            print(f"{release}:", flush=True)
            for command in COMMANDS:
                run_in(root, f"cd /heddle && {command}")


main(sys.argv[1:])
