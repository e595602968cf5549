# SPDX-License-Identifier: Apache-2.0
"""The package `heddle` of the tree, for tests: they are skipped where it cannot be imported."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../python")]
from runner import check, skip  # noqa: E402

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


def raises(what, said, function, *arguments, **named):
    """Fails unless the call raises `what` with a text in which `said` is."""
    try:
        function(*arguments, **named)
    except what as error:
        check(said in str(error), f"'{said}' is not in '{error}'")
        return
    except Exception as error:  # pylint: disable=broad-except
        sys.exit(f"failed: {type(error).__name__} in place of {what}: {error}")
    sys.exit(f"failed: nothing was raised where '{said}' should have been")
