# SPDX-License-Identifier: Apache-2.0
"""Each type of layer as ops of ONNX. A function adds its ops to the graph and returns the name of what they yield."""

from __future__ import annotations

import numpy as np

from .net import Layer, find_table_entry
from .onnx_graph import Graph

EPSILON = 1e-5  # of all layers that normalise


class States:
    """The states of recurrent layers: those before the step, and those after it by their places."""

    def __init__(self, before: str) -> None:
        self.before = before
        self.after: dict[int, str] = {}


def add_layers(graph: Graph, layers: list[Layer], value: str, states: States) -> str:
    for layer in layers:
        value = find_table_entry(LAYERS, layer, "ONNX")(graph, layer, value, states)
    return value


def _name(layer: Layer, tensor: str) -> str:
    return f"{layer.module}.{tensor}"


def _add_tensors(graph: Graph, layer: Layer) -> list[str]:
    return [graph.add_tensor(values, _name(layer, name)) for name, values in layer.tensors.items()]


def _dense(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    return graph.add("Gemm", value, *_add_tensors(graph, layer), transB=1)


def _conv(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    kernel, stride, padding = (layer.fields[name] for name in ("kernel", "stride", "padding"))
    return graph.add("Conv", value, *_add_tensors(graph, layer), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                     pads=[padding] * 4)


def _max_pool(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    kernel = layer.fields["kernel"]
    return graph.add("MaxPool", value, kernel_shape=[kernel] * 2, strides=[layer.fields["stride"] or kernel] * 2,
                     pads=[layer.fields["padding"]] * 4)


def _flatten(graph: Graph, _layer: Layer, value: str, _states: States) -> str:
    return graph.add("Flatten", value, axis=1)


def _relu(graph: Graph, _layer: Layer, value: str, _states: States) -> str:
    return graph.add("Relu", value)


def _tanh(graph: Graph, _layer: Layer, value: str, _states: States) -> str:
    return graph.add("Tanh", value)


def _gelu(graph: Graph, _layer: Layer, value: str, _states: States) -> str:
    """x (1 + erf(x / sqrt 2)) / 2."""
    erf = graph.add("Erf", graph.add("Mul", value, graph.add_tensor(np.float32(0.5 ** 0.5))))
    half = graph.add("Mul", value, graph.add_tensor(np.float32(0.5)))
    return graph.add("Mul", half, graph.add("Add", erf, graph.add_tensor(np.float32(1))))


def _layer_norm(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    return graph.add("LayerNormalization", value, *_add_tensors(graph, layer), axis=1, epsilon=EPSILON)


def _group_norm(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    """Groups are the instances of InstanceNormalization; weight and bias of the channels follow."""
    groups, (channels, height, width) = layer.fields["groups"], layer.input
    ones, zeros = (graph.add_tensor(np.full(groups, number, np.float32)) for number in (1, 0))
    normal = graph.add("InstanceNormalization", graph.reshape(value, 0, groups, -1), ones, zeros, epsilon=EPSILON)
    weight, bias = (graph.add_tensor(layer.tensors[name].reshape(-1, 1, 1), _name(layer, name))
                    for name in ("weight", "bias"))
    return graph.add("Add", graph.add("Mul", graph.reshape(normal, 0, channels, height, width), weight), bias)


def _batch_norm(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    return graph.add("BatchNormalization", value, *_add_tensors(graph, layer), epsilon=EPSILON)


def _embedding(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    """The last row of the table is for numbers that are no row's; it is NaN, as in heddle."""
    [table] = layer.tensors.values()
    values = len(table)
    padded = graph.add_tensor(np.vstack([table, np.full((1, table.shape[1]), np.nan, np.float32)]), _name(layer, "weight"))
    inside = graph.add("And", graph.add("GreaterOrEqual", value, graph.add_tensor(np.float32(0))),
                       graph.add("Less", value, graph.add_tensor(np.float32(values))))
    whole = graph.add("And", inside, graph.add("Equal", graph.add("Floor", value), value))
    row = graph.add("Where", whole, value, graph.add_tensor(np.float32(values)))
    return graph.add("Gather", padded, graph.add("Cast", row, to=7), axis=0)  # 7: INT64


def _order_gates(values: np.ndarray, order: list[int]) -> np.ndarray:
    """The gates of a tensor of PyTorch in the order of ONNX, for one direction."""
    gates = np.split(values, len(order))
    return np.concatenate([gates[i] for i in order])[None]


def _recurrent(graph: Graph, layer: Layer, value: str, states: States, op: str, order: list[int], **attributes: int) -> str:
    """One step of a layer, of which each state is as long as its output."""
    [hidden], tensors = layer.output, layer.tensors
    kept = 2 if op == "LSTM" else 1
    weights = [graph.add_tensor(_order_gates(tensors[name], order), _name(layer, name))
               for name in ("weight_ih_l0", "weight_hh_l0")]
    bias = np.concatenate([_order_gates(tensors[name], order) for name in ("bias_ih_l0", "bias_hh_l0")], axis=1)
    first = graph.add_tensor(np.array([0], np.int64))
    before = [graph.add("Unsqueeze", graph.cut(states.before, at, at + hidden), first)
              for at in range(layer.state, layer.state + kept * hidden, hidden)]
    _, *after = graph.add(op, graph.add("Unsqueeze", value, first), *weights, graph.add_tensor(bias), "", *before,
                          outputs=1 + kept, hidden_size=hidden, **attributes)
    after = [graph.add("Squeeze", state, first) for state in after]
    for i, state in enumerate(after):
        states.after[layer.state + i * hidden] = state
    return after[0]


def _gru(graph: Graph, layer: Layer, value: str, states: States) -> str:
    """PyTorch's gates are r, z, n, and those of ONNX z, r, n."""
    return _recurrent(graph, layer, value, states, "GRU", [1, 0, 2], linear_before_reset=1)


def _lstm(graph: Graph, layer: Layer, value: str, states: States) -> str:
    """PyTorch's gates are i, f, g, o, and those of ONNX i, o, f, g."""
    return _recurrent(graph, layer, value, states, "LSTM", [0, 3, 1, 2])


def _residual(graph: Graph, layer: Layer, value: str, states: States) -> str:
    return graph.add("Add", value, add_layers(graph, layer.layers, value, states))


def _log_std(graph: Graph, layer: Layer, value: str, _states: States) -> str:
    [tensor] = _add_tensors(graph, layer)
    return graph.add("Concat", value, graph.add("Expand", tensor, graph.add("Shape", value)), axis=1)


LAYERS = {"dense": _dense, "conv": _conv, "relu": _relu, "tanh": _tanh, "gelu": _gelu, "max_pool": _max_pool,
          "flatten": _flatten, "layer_norm": _layer_norm, "group_norm": _group_norm, "batch_norm": _batch_norm,
          "embedding": _embedding, "gru": _gru, "lstm": _lstm, "residual": _residual, "log_std": _log_std}
