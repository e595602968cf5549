#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All combinations of tests/train/test_many_ranks.py."""

import os
import sys

os.environ["HD_MANY_RANKS"] = "all"
script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../train/test_many_ranks.py")
os.execv(sys.executable, [sys.executable, script])
