# SPDX-License-Identifier: Apache-2.0
"""A policy as a model of ONNX: from observations, as environments show them, to outputs and actions."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._library import version
from ..policy import Policy
from .net import Input, Net, Norm, read_net
from .onnx_graph import Graph
from .onnx_layers import States, add_layers

# The names of inputs and outputs; observations of several parts have the names of the parts.
OBS, STATE, EPISODE_START, OUTPUTS, ACTION, NEXT_STATE = "obs", "state", "episode_start", "outputs", "action", "next_state"


def _add_obs(graph: Graph, norm: Norm | None, part: Input, name: str) -> str:
    """The numbers that enter the net."""
    value = graph.add("Cast", name, to=1) if part.bytes else name  # 1: FLOAT
    if norm:
        scale, shift = (graph.add_tensor(values.reshape(part.shape)) for values in (norm.scale, norm.shift))
        limits = [graph.add_tensor(np.float32(limit)) for limit in (-norm.clip, norm.clip)]
        return graph.add("Clip", graph.add("Add", graph.add("Mul", value, scale), shift), *limits)
    return graph.add("Div", value, graph.add_tensor(np.float32(255))) if part.bytes else value


def _add_inputs(graph: Graph, net: Net, states: States) -> str:
    names = {part.part or OBS: part for part in net.inputs}  # several inputs may read one part
    for name, part in names.items():
        graph.add_input(name, np.uint8 if part.bytes else np.float32, part.shape)
    values = [add_layers(graph, part.layers, _add_obs(graph, net.norm, part, part.part or OBS), states)
              for part in net.inputs]
    return graph.add("Concat", *values, axis=1) if len(values) > 1 else values[0]


def _add_states(graph: Graph, net: Net) -> States:
    """Where an episode begins, the state before the step is zero."""
    if not net.state_size:
        return States("")
    graph.add_input(STATE, np.float32, (net.state_size,))
    graph.add_input(EPISODE_START, np.bool_, ())
    begins = graph.reshape(EPISODE_START, -1, 1)
    return States(graph.add("Where", begins, graph.add_tensor(np.float32(0)), STATE))


def _add_heads(graph: Graph, net: Net, value: str, states: States) -> str:
    found = {is_value: add_layers(graph, layers, value, states) for is_value, layers in net.streams}
    if net.dueling:
        mean = graph.add("ReduceMean", found[False], axes=[1], keepdims=1)
        return graph.add("Add", found[False], graph.add("Sub", found[True], mean))
    return graph.add("Concat", found[False], found[True], axis=1) if net.value else found[False]


def _choose(graph: Graph, net: Net, outputs: str, first: int, choices: int, each: int) -> str:
    """The largest of the choices from number `first` on, each the mean of `each` numbers."""
    values = graph.cut(outputs, first, first + choices * each)
    if each > 1:
        values = graph.add("ReduceMean", graph.reshape(values, 0, choices, each), axes=[2], keepdims=0)
    return graph.add("ArgMax", values, axis=1, keepdims=0 if net.actions.kind == "discrete" else 1)


def _add_box(graph: Graph, net: Net, outputs: str) -> str:
    """The means, within the bounds of the environment."""
    means = graph.cut(outputs, 0, net.actions.dims)
    low, high = net.low, net.high
    assert low is not None and high is not None
    if net.squashed:
        low, high = np.where(np.isfinite(low), low, -1), np.where(np.isfinite(high), high, 1)
        unit = graph.add("Add", graph.add("Tanh", means), graph.add_tensor(np.float32(1)))
        half = graph.add_tensor(((high - low) * np.float32(0.5)).astype(np.float32))
        return graph.add("Add", graph.add("Mul", unit, half), graph.add_tensor(low.astype(np.float32)))
    if np.isfinite(low).any():
        means = graph.add("Max", means, graph.add_tensor(low))
    return graph.add("Min", means, graph.add_tensor(high)) if np.isfinite(high).any() else means


def _add_action(graph: Graph, net: Net, outputs: str) -> str:
    if net.actions.kind == "box":
        return _add_box(graph, net, outputs)
    each = net.numbers // sum(net.actions.n)
    firsts = np.cumsum([0, *net.actions.n]) * each
    choices = [_choose(graph, net, outputs, int(first), n, each) for first, n in zip(firsts, net.actions.n)]
    return graph.add("Concat", *choices, axis=1) if len(choices) > 1 else choices[0]


def build_model(policy: Policy) -> Any:
    """The model of a policy, an onnx.ModelProto that ONNX has checked. All dimensions but the first are fixed. Raises
    InputError for a layer that ONNX's ops do not compute."""
    net, graph = read_net(policy), Graph()
    states = _add_states(graph, net)
    outputs = _add_heads(graph, net, add_layers(graph, net.layers, _add_inputs(graph, net, states), states), states)
    graph.add_output(OUTPUTS, outputs, np.float32, (net.outputs,))
    graph.add_output(ACTION, _add_action(graph, net, outputs), net.actions.dtype, net.actions.shape)
    if net.state_size:
        after = [states.after[place] for place in sorted(states.after)]
        graph.add_output(NEXT_STATE, graph.add("Concat", *after, axis=1), np.float32, (net.state_size,))
    return graph.build({"heddle_policy": net.policy, "heddle_version": version()}, version())


def write_onnx(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Writes the model of a policy."""
    import onnx

    onnx.save_model(build_model(policy), os.fspath(path))
