# SPDX-License-Identifier: Apache-2.0
"""The package `heddle` of the tree, for tests: they are skipped where it cannot be imported."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../python")]
from runner import skip  # noqa: E402

try:
    import gymnasium  # noqa: F401
    import numpy  # noqa: F401
    import safetensors.numpy  # noqa: F401
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")
with open(os.environ["HEDDLE_INFER_LIBRARY"], "rb") as library:
    if re.search(rb"lib[at]san\.so", library.read()):
        skip("the library was built with sanitizers, which Python would have to load first")
import heddle  # noqa: E402,F401
