# SPDX-License-Identifier: Apache-2.0
"""Which instruction sets of CMakeLists.txt's HD_ISAS this processor has: the rule of runner/chooser.c, by Linux' names."""

from __future__ import annotations

import ctypes
import os

# Lowest first; each has all that those before it have.
ISAS = {
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v4-bf16": "avx512_bf16",
    "x86-64-v4-amx": "amx_bf16 amx_tile",
}


def _read_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return set()


def _may_use_tiles() -> bool:
    """Linux grants the tile registers to processes that ask for them."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


def list_isas() -> list[str]:
    """Those that may be used, the best first: up to $HD_ISA, if it is set."""
    flags, here = _read_flags(), []
    for name, needed in ISAS.items():
        if not flags.issuperset(needed.split()) or name.endswith("-amx") and not _may_use_tiles():
            break
        here.insert(0, name)
    named = os.environ.get("HD_ISA") or (here or [""])[0]
    if here and named not in here:
        raise ImportError(f"HD_ISA: expected one of this processor's instruction sets ({', '.join(reversed(here))}), found "
                          f"'{named}'")
    return here[here.index(named):] if here else []


def find_variant(folder: str, name: str) -> str | None:
    """The file <folder>/<instruction set>/<name> of the best set; None where there is none for any."""
    paths = {isa: os.path.join(folder, isa, name) for isa in ISAS}
    if not any(map(os.path.exists, paths.values())):
        return None
    isas = list_isas()
    for isa in isas:
        if os.path.exists(paths[isa]):
            return paths[isa]
    raise ImportError(f"heddle has no {name} for {isas[0] if isas else 'this processor'} or less in {folder}")
