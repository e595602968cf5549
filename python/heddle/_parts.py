# SPDX-License-Identifier: Apache-2.0
"""Observations of several parts: dicts of arrays here, rows of bytes in the library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _library as lib

if TYPE_CHECKING:
    import gymnasium


def make_box(shape: tuple[int, ...], dtype: np.dtype) -> gymnasium.Space:
    from gymnasium import spaces

    if dtype == np.uint8:
        return spaces.Box(0, 255, shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


class Parts:
    """What observations consist of; false if they are one array."""

    def __init__(self, found: lib.ObsParts) -> None:
        self.frames, self.frame_bytes = found.frames, found.frame_bytes
        self.parts = {part.name.decode(): (part.get_shape(), part.get_dtype(), part.offset)
                      for part in found.part[:found.n]}

    def __bool__(self) -> bool:
        return bool(self.parts)

    def _find(self, rows: np.ndarray, name: str) -> np.ndarray:
        """The bytes [rows, frames, ...] of a part in rows[rows, bytes of an observation]."""
        shape, dtype, offset = self.parts[name]
        size = math.prod(shape) * dtype.itemsize // self.frames
        return rows.reshape(-1, self.frames, self.frame_bytes)[:, :, offset:offset + size]

    def _take(self, name: str, given: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        """A part's array as the library has its numbers, and the shape of the batch."""
        shape, dtype, _ = self.parts[name]
        array = np.asarray(given)
        if array.dtype.kind not in ("u" if dtype == np.uint8 else "fiu") or (dtype == np.uint8 and array.dtype != dtype):
            raise TypeError(f"part {name!r} of observations is {dtype}, found {array.dtype}")
        batch = array.shape[:array.ndim - len(shape)]
        if array.shape[len(batch):] != shape:
            raise lib.InputError(f"part {name!r} of observations has the shape {shape}, alone or with dimensions of a "
                                 f"batch before it; found {array.shape}")
        return np.ascontiguousarray(array, dtype), batch

    def pack(self, obs: Mapping[str, Any]) -> np.ndarray:
        """Rows of bytes [..., bytes of an observation] of arrays [..., *shape]."""
        if set(obs) != set(self.parts):
            raise lib.InputError(f"observations have the parts {sorted(self.parts)}, found {sorted(map(str, obs))}")
        taken = {name: self._take(name, given) for name, given in obs.items()}
        batches = {name: batch for name, (_, batch) in taken.items()}
        batch = next(iter(batches.values()))
        if any(other != batch for other in batches.values()):
            raise lib.InputError(f"the parts of observations have batches of different shapes: {batches}")
        rows = np.zeros((*batch, self.frames * self.frame_bytes), np.uint8)
        for name, (array, _) in taken.items():
            found = self._find(rows, name)
            found[...] = array.reshape(-1).view(np.uint8).reshape(found.shape)
        return rows

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """What `pack` packs."""
        return {name: np.ascontiguousarray(self._find(rows, name)).reshape(-1).view(dtype).reshape(*rows.shape[:-1], *shape)
                for name, (shape, dtype, _) in self.parts.items()}

    def to_space(self) -> gymnasium.Space:
        """The same as a space of gymnasium."""
        from gymnasium import spaces

        return spaces.Dict({name: make_box(shape, dtype) for name, (shape, dtype, _) in self.parts.items()})
