# SPDX-License-Identifier: Apache-2.0
"""What the scripts regen_*.py share: files of golden numbers, and the generators that fill their inputs.

A file is a JSON object. Its first member is the CRC-32 of what follows the first line, which tells every change of a
digit, and its second says what the numbers are. Floats have 17 digits, which read back to the same bits."""

import json
import os
import sys
import zlib

WIDTH = 2000  # of a line, in characters, where a value can be broken
MASK = (1 << 64) - 1


# -- Files -------------------------------------------------------------------------------------------------------------


def encode(value):
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text if "." in text or "e" in text else text + ".0"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {encode(member)}" for key, member in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(encode, value)) + "]"
    return json.dumps(value)


def lay_out(value):
    """JSON in which a line holds one member of a map, or as many elements of a list as fit."""
    text = encode(value)
    if len(text) <= WIDTH or isinstance(value, str):
        return text
    if isinstance(value, dict):
        return "{" + ",\n".join(f"{json.dumps(key)}: {lay_out(member)}" for key, member in value.items()) + "}"
    rows = [""]
    for element in map(lay_out, value):
        if rows[-1] and len(rows[-1]) + len(element) > WIDTH:
            rows.append("")
        rows[-1] += ", " * bool(rows[-1]) + element
    return "[" + ",\n".join(rows) + "]"


def write(about, **members):
    """Prints a file of these members."""
    members = {"about": f"{about}; made by tests/golden/{os.path.basename(sys.argv[0])}", **members}
    rest = ",\n".join(f"{json.dumps(key)}: {lay_out(member)}" for key, member in members.items()) + "}"
    print(f'{{"crc32": "{zlib.crc32((rest + chr(10)).encode()):08x}",\n{rest}')


# -- Numbers -----------------------------------------------------------------------------------------------------------


def fill(k, j):
    """docs/di-engine.md 9.1."""
    z = ((k << 32) + j + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    z ^= z >> 31
    return (z >> 40) / 16777216


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al. 2011)."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0, c1, c2, c3


def describe(tensor):
    """Norm, sum and first elements of one of PyTorch's tensors, with which check_tensor compares."""
    flat = tensor.detach().flatten()
    return {"l2": float(flat.norm()), "sum": float(flat.sum()), "first": flat[:4].tolist()}
