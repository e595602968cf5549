#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_recurrent.py > tests/golden/ppo_recurrent.json (with PyTorch)

Writes what PyTorch gives in double for three PPO updates of recurrent nets (tests/interop/pytorch/torch_recurrent.py)."""

import json
import os
import sys

import golden

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop/pytorch"))
from torch_recurrent import CASES, compute_updates  # noqa: E402


def describe(values):
    return {"l2": sum(x * x for x in values) ** 0.5, "sum": sum(values), "first": values[:4]}


def compute(layers):
    reports, params = compute_updates(layers)
    return {"layers": json.dumps(layers).replace('"', ""), "names": list(params), "updates": reports,
            "params_after": list(map(describe, params.values()))}


def main():
    golden.write("what PyTorch gives for PPO updates of recurrent nets over sequences: the case of "
                 "tests/interop/pytorch/torch_recurrent.py, in double", cases=list(map(compute, CASES.values())))


main()
