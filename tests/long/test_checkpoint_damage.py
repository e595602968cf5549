#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of damaged checkpoints of three kinds of runs: tests/train/test_checkpoint_damage.py with many rounds."""

import os
import sys

os.environ["HD_DAMAGES"] = os.environ.get("HD_DAMAGES", "100")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../train"))
import test_checkpoint_damage  # noqa: E402

if __name__ == "__main__":
    test_checkpoint_damage.main()
