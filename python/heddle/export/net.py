# SPDX-License-Identifier: Apache-2.0
"""The net of a policy as the C library describes it: layers with their shapes, fields and numbers."""

from __future__ import annotations

import ctypes
import json
import math
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from .. import _library as lib
from ..errors import InputError
from ..policy import Actions, Policy

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """`tensors` maps the last parts of their names ("weight") to arrays; `state` is the place of the layer's state in
    the policy's, and `layers` are those inside of it."""

    type: str
    module: str
    fields: dict[str, int]
    input: Shape
    output: Shape
    tensors: dict[str, np.ndarray]
    state: int
    layers: list[Layer]

    @property
    def label(self) -> str:
        """For messages: `layers.3 (gru)`."""
        return f"{self.module} ({self.type})" if self.module else self.type


@dataclass(frozen=True)
class Input:
    """A part of the observation, None if it is one array, and the layers that read it alone."""

    part: str | None
    shape: Shape
    bytes: bool
    layers: list[Layer]


@dataclass(frozen=True)
class Norm:
    """Element j of an observation enters as x scale[j] + shift[j], between -clip and clip."""

    clip: float
    scale: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True)
class Net:
    """A net and what its outputs mean; `describe_net` of infer.h says it key by key. `streams` are (value, layers)."""

    policy: str
    precision: str
    norm: Norm | None
    inputs: list[Input]
    layers: list[Layer]
    streams: list[tuple[bool, list[Layer]]]
    dueling: bool
    value: bool
    numbers: int
    squashed: bool
    low: np.ndarray | None
    high: np.ndarray | None
    actions: Actions
    outputs: int
    state_size: int

    def list_layers(self) -> list[Layer]:
        """All layers in the order in which they are computed, those inside of others behind them."""
        sequences = [*(part.layers for part in self.inputs), self.layers, *(layers for _, layers in self.streams)]
        return [layer for layers in sequences for layer in _flatten(layers)]

    def count_parameters(self) -> int:
        return sum(tensor.size for layer in self.list_layers() for tensor in layer.tensors.values())


def _flatten(layers: list[Layer]) -> list[Layer]:
    return [found for layer in layers for found in (layer, *_flatten(layer.layers))]


def find_table_entry(table: dict[str, Callable[..., Any]], layer: Layer, form: str) -> Callable[..., Any]:
    """What a table of types of layers has for one; a type that it does not have is refused."""
    if layer.type not in table:
        raise InputError(f"the layer {layer.label} cannot be exported as {form}, which knows {', '.join(table)}")
    return table[layer.type]


def _describe(policy: Policy) -> dict[str, Any]:
    size = ctypes.c_int64()
    lib.call("policy_describe_net", policy._address, None, 0, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    lib.call("policy_describe_net", policy._address, ctypes.addressof(text), size.value, ctypes.byref(size))
    return json.loads(text.value)


def _copy(policy: Policy, tensor: dict[str, Any]) -> np.ndarray:
    values = np.empty(tensor["shape"], np.float32)
    lib.call("policy_copy_tensor", policy._address, tensor["name"].encode(), values.size, lib.address_of(values))
    return values


def _read_layers(policy: Policy, layers: list[dict[str, Any]]) -> list[Layer]:
    return [Layer(layer["type"], layer["module"], layer["fields"], tuple(layer["in"]), tuple(layer["out"]),
                  {tensor["name"].rpartition(".")[2]: _copy(policy, tensor) for tensor in layer["tensors"]},
                  layer["state"], _read_layers(policy, layer["layers"])) for layer in layers]


def _read_side(bounds: dict[str, list[float | None]] | None, side: str, otherwise: float) -> np.ndarray | None:
    return bounds and np.array([otherwise if value is None else value for value in bounds[side]], np.float32)


def read_net(policy: Policy) -> Net:
    """The net of a policy that `heddle.load` loaded, with copies of its numbers."""
    found = _describe(policy)
    norm, bounds = found["norm"], found["bounds"]
    return Net(
        policy=found["policy"], precision=found["precision"],
        norm=norm and Norm(norm["clip"], _copy(policy, norm["scale"]), _copy(policy, norm["shift"])),
        inputs=[Input(part["part"], tuple(part["shape"]), part["bytes"], _read_layers(policy, part["layers"]))
                for part in found["inputs"]],
        layers=_read_layers(policy, found["layers"]),
        streams=[(stream["value"], _read_layers(policy, stream["layers"])) for stream in found["streams"]],
        dueling=found["dueling"], value=found["value"], numbers=found["actions"], squashed=found["squashed"],
        low=_read_side(bounds, "low", -math.inf), high=_read_side(bounds, "high", math.inf),
        actions=policy.actions, outputs=policy.outputs, state_size=policy.state_size)
