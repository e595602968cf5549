#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program from end to end, as `scripts/test --quick` runs it: CartPole is solved."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import Scratch, check, train  # noqa: E402


def main():
    with Scratch() as scratch:
        run = train(scratch("run"))
        print(run["reason"], run["train_iter"], run["wall_s"])
        check(run["reason"] == "solved" and run["eval_value"] >= 195, "CartPole was not solved")


main()
