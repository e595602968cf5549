# SPDX-License-Identifier: Apache-2.0
"""Each type of layer as statements of C."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .c_source import Source
from .net import Layer, find_table_entry


@dataclass(frozen=True)
class Value:
    """A value in C, and whether nothing else reads it, so that it may be changed in place."""

    name: str
    size: int
    owned: bool


def add_layers(source: Source, layers: list[Layer], value: Value) -> Value:
    for layer in layers:
        value = find_table_entry(LAYERS, layer, "C")(source, layer, value)
    return value


def take(source: Source, value: Value) -> Value:
    """The value, or a copy of it, to be changed."""
    if value.owned:
        return value
    copy = Value(source.add_buffer(value.size), value.size, True)
    source.call("copy", value.size, value.name, copy.name)
    return copy


def _add_result(source: Source, layer: Layer) -> Value:
    size = math.prod(layer.output)
    return Value(source.add_buffer(size), size, True)


def _add_arrays(source: Source, layer: Layer) -> list[str]:
    return [source.add_array(values) for values in layer.tensors.values()]


def _dense(source: Source, layer: Layer, value: Value) -> Value:
    result = _add_result(source, layer)
    source.call("dense", *layer.input, *layer.output, *_add_arrays(source, layer), value.name, result.name)
    return result


def _conv(source: Source, layer: Layer, value: Value) -> Value:
    result = _add_result(source, layer)
    sizes = (layer.fields[name] for name in ("kernel", "stride", "padding"))
    source.call("conv", layer.input, layer.output, *sizes, *_add_arrays(source, layer), value.name, result.name)
    return result


def _max_pool(source: Source, layer: Layer, value: Value) -> Value:
    result, kernel = _add_result(source, layer), layer.fields["kernel"]
    source.call("max_pool", layer.input, layer.output, kernel, layer.fields["stride"] or kernel, layer.fields["padding"],
                value.name, result.name)
    return result


def _flatten(_source: Source, _layer: Layer, value: Value) -> Value:
    return value


def _activate(source: Source, function: str, value: Value) -> Value:
    value = take(source, value)
    source.call(function, value.size, value.name)
    return value


def _relu(source: Source, _layer: Layer, value: Value) -> Value:
    return _activate(source, "relu", value)


def _tanh(source: Source, _layer: Layer, value: Value) -> Value:
    return _activate(source, "tanhs", value)


def _gelu(source: Source, _layer: Layer, value: Value) -> Value:
    return _activate(source, "gelu", value)


def _layer_norm(source: Source, layer: Layer, value: Value) -> Value:
    value = _activate(source, "normalise", value)
    source.call("scale", value.size, 1, *_add_arrays(source, layer), value.name)
    return value


def _group_norm(source: Source, layer: Layer, value: Value) -> Value:
    value, size = take(source, value), value.size // layer.fields["groups"]
    for first in range(0, value.size, size):
        source.call("normalise", size, f"{value.name} + {first}")
    source.call("scale", layer.input[0], math.prod(layer.input[1:]), *_add_arrays(source, layer), value.name)
    return value


def _batch_norm(source: Source, layer: Layer, value: Value) -> Value:
    """One factor and one summand for each channel."""
    value = take(source, value)
    weight, bias, mean, variance = (values.astype(np.float64) for values in layer.tensors.values())
    factor = weight / np.sqrt(variance + 1e-5)
    arrays = [source.add_array(values.astype(np.float32)) for values in (factor, bias - mean * factor)]
    source.call("scale", layer.input[0], math.prod(layer.input[1:]), *arrays, value.name)
    return value


def _embedding(source: Source, layer: Layer, value: Value) -> Value:
    result = _add_result(source, layer)
    source.call("embed", *layer.input, layer.fields["values"], layer.fields["width"], *_add_arrays(source, layer),
                value.name, result.name)
    return result


def _recurrent(source: Source, layer: Layer, value: Value) -> Value:
    """The output is the state itself, which the caller owns."""
    state = f"state + {layer.state}"
    gates = len(layer.tensors["bias_ih_l0"])
    rooms = [source.add_buffer(gates) for _ in range(2)]
    source.call(layer.type, *layer.input, *layer.output, *_add_arrays(source, layer), value.name, *rooms, state)
    return Value(state, *layer.output, False)


def _residual(source: Source, layer: Layer, value: Value) -> Value:
    result = take(source, add_layers(source, layer.layers, Value(value.name, value.size, False)))
    source.call("add", value.size, value.name, result.name)
    return result


def _log_std(source: Source, layer: Layer, value: Value) -> Value:
    result = _add_result(source, layer)
    source.call("copy", value.size, value.name, result.name)
    source.call("copy", value.size, *_add_arrays(source, layer), f"{result.name} + {value.size}")
    return result


LAYERS = {"dense": _dense, "conv": _conv, "relu": _relu, "tanh": _tanh, "gelu": _gelu, "max_pool": _max_pool,
          "flatten": _flatten, "layer_norm": _layer_norm, "group_norm": _group_norm, "batch_norm": _batch_norm,
          "embedding": _embedding, "gru": _recurrent, "lstm": _recurrent, "residual": _residual, "log_std": _log_std}
