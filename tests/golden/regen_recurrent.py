#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: regen_recurrent.py | clang-format > tests/golden/ppo_recurrent.h (with PyTorch)

Writes what PyTorch gives in double for three PPO updates of recurrent nets (tests/interop/torch_recurrent.py)."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
from torch_recurrent import CASES, UPDATES, compute_updates  # noqa: E402


def write_tensor(name, values):
    l2 = sum(x * x for x in values) ** 0.5
    first = (values + [0.0] * 4)[:4]
    print(f'{{"{name}", {l2:.17g}, {sum(values):.17g}, {min(4, len(values))}, '
          f"{{{', '.join(f'{x:.17g}' for x in first)}}}}},")


def main():
    print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch gives for PPO updates of recurrent nets over sequences: the case of
 * tests/interop/torch_recurrent.py, in double. Made by tests/golden/regen_recurrent.py. */
#ifndef HD_TESTS_GOLDEN_PPO_RECURRENT_H
#define HD_TESTS_GOLDEN_PPO_RECURRENT_H

#include "tests/golden/ppo.h"

enum {{ GOLDEN_RECURRENT_UPDATES = {UPDATES}, GOLDEN_RECURRENT_CASES = {len(CASES)} }};

static const struct golden_recurrent {{
    const char *layers;
    struct golden_ppo_update update[GOLDEN_RECURRENT_UPDATES];
    int tensors;
    struct golden_ppo_tensor params_after[GOLDEN_PPO_TENSORS]; /* [tensors] */
}} golden_recurrent[GOLDEN_RECURRENT_CASES] = {{""")
    for layers in CASES.values():
        reports, params = compute_updates(layers)
        text = json.dumps(layers).replace('"', "")
        print(f'{{"{text}", {{')
        for report in reports:
            print("{" + ", ".join(f".{key} = {value:.17g}" for key, value in report.items()) + "},")
        print(f"}}, {len(params)}, {{")
        for name, values in params.items():
            write_tensor(name, values)
        print("}},")
    print("};\n\n#endif")


main()
