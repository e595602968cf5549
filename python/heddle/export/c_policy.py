# SPDX-License-Identifier: Apache-2.0
"""A policy as C source: NAME_forward and NAME_act, in C99 with libm, without memory of their own."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from .._library import version
from ..errors import InputError
from ..policy import Policy
from .c_layers import Value, add_layers, take
from .c_source import Source, format_float
from .net import Input, Net, read_net

MOST_PARAMETERS = 500_000  # 10 MB of source


def _name_part(part: Input) -> str:
    return f"obs_{re.sub(r'[^A-Za-z0-9_]', '_', part.part)}" if part.part else "obs"


def _list_parameters(net: Net) -> list[str]:
    """Those of both functions, but for the results."""
    parts = dict.fromkeys(f"const {'uint8_t' if part.bytes else 'float'} *{_name_part(part)}" for part in net.inputs)
    return [*parts, "float *state"] if net.state_size else [*parts]


def _list_arguments(net: Net) -> list[str]:
    return [text.rpartition("*")[2] for text in _list_parameters(net)]


# -- Statements ----------------------------------------------------------------------------------------------------


def _add_obs(source: Source, net: Net, part: Input) -> Value:
    """The numbers that enter the net."""
    size, name = math.prod(part.shape), _name_part(part)
    value = Value(name, size, False)
    if part.bytes:
        value = Value(source.add_buffer(size), size, True)
        divided = "" if net.norm else " / 255.0f"
        source.statements += [f"for (int i = 0; i < {size}; i++)", f"    {value.name}[i] = (float){name}[i]{divided};"]
    if net.norm:
        limit = format_float(net.norm.clip)
        value = take(source, value)
        source.call("scale", size, 1, source.add_array(net.norm.scale), source.add_array(net.norm.shift), value.name)
        source.use("clip")
        source.statements += [f"for (int i = 0; i < {size}; i++)",
                              f"    {value.name}[i] = clip({value.name}[i], -{limit}, {limit});"]
    return value


def _add_inputs(source: Source, net: Net) -> Value:
    values = [add_layers(source, part.layers, _add_obs(source, net, part)) for part in net.inputs]
    if len(values) == 1:
        return values[0]
    size, first = sum(value.size for value in values), 0
    joined = Value(source.add_buffer(size), size, True)
    for value in values:
        source.call("copy", value.size, value.name, f"{joined.name} + {first}")
        first += value.size
    return joined


def _add_heads(source: Source, net: Net, value: Value) -> None:
    """Writes `out`."""
    value = Value(value.name, value.size, False)  # the streams share it
    found = {is_value: add_layers(source, layers, value) for is_value, layers in net.streams}
    source.call("copy", found[False].size, found[False].name, "out")
    if net.value:
        source.statements.append(f"out[{net.outputs - 1}] = {found[True].name}[0];")
    if net.dueling:
        n = net.outputs
        source.statements += ["float shift = 0;", f"for (int i = 0; i < {n}; i++)", "    shift -= out[i];",
                              f"shift = shift / {n} + {found[True].name}[0];", f"for (int i = 0; i < {n}; i++)",
                              "    out[i] += shift;"]


def _format_action(net: Net, i: int) -> str:
    """The real number i of an action."""
    assert net.low is not None and net.high is not None
    low, high = float(net.low[i]), float(net.high[i])
    if net.squashed:
        low, high = (bound if math.isfinite(bound) else side for bound, side in ((low, -1.0), (high, 1.0)))
        half = np.float32(np.float32(high) - np.float32(low)) * np.float32(0.5)
        return f"{format_float(low)} + {format_float(half)} * (tanhf(out[{i}]) + 1)"
    bounds = [format_float(bound) if math.isfinite(bound) else f"{'-' if bound < 0 else ''}INFINITY"
              for bound in (low, high)]
    return f"clip(out[{i}], {', '.join(bounds)})" if math.isfinite(low) or math.isfinite(high) else f"out[{i}]"


def _list_choices(source: Source, net: Net) -> list[str]:
    """The statements that make an action of `out`."""
    if net.actions.kind == "box":
        values = [_format_action(net, i) for i in range(net.actions.dims)]
    else:
        each = net.numbers // sum(net.actions.n)
        firsts = np.cumsum([0, *net.actions.n]) * each
        values = [f"choose({n}, {each}, out + {first})" for first, n in zip(firsts, net.actions.n)]
    for function in {value.partition("(")[0] for value in values} & {"choose", "clip"}:
        source.use(function)
    return [f"action[{i}] = {value};" for i, value in enumerate(values)]


# -- Files ---------------------------------------------------------------------------------------------------------


def _format_head(net: Net, source: Source, origin: str) -> str:
    """Says where the policy came from, and what the stack has to hold."""
    lines = [f"A policy that Heddle trained, from {origin}, by heddle export (Heddle {version()}).",
             f"{net.count_parameters()} parameters; a call needs {4 * sum(source.buffers)} bytes of stack and more for itself."]
    if net.precision == "bf16":
        lines.append("It was trained with products of bf16; these are products of floats.")
    text = "\n".join([*lines, "", *net.policy.splitlines()]).replace("*/", "* /").replace("/*", "/ *")
    return "/*\n" + "".join(f" * {line}".rstrip() + "\n" for line in text.splitlines()) + " */\n"


def _format_header(net: Net, name: str) -> str:
    upper, parameters = name.upper(), ", ".join(_list_parameters(net))
    kind = "float" if net.actions.kind == "box" else "int"
    parts = {part.part: part for part in net.inputs}.values()  # several inputs may read one part
    sizes = {_name_part(part).upper(): math.prod(part.shape) for part in parts}
    sizes |= {"OUTPUTS": net.outputs, "ACTION": net.actions.dims, "STATE": net.state_size}
    pictures = " Pictures are bytes [channels][height][width]." if any(part.bytes for part in net.inputs) else ""
    state = (f" The caller keeps state[{upper}_STATE] from step to step, and sets it to zero where an episode begins."
             if net.state_size else "")
    said = {"forward": f"Computes the outputs of the net for one observation.{pictures}{state}",
            "act": "Chooses the action: " + ("the means, within the bounds of the environment." if kind == "float" else
                                             "the likeliest one, or that of the largest value.")}
    return (f"/* Any number of threads may call these functions at a time. */\n#ifndef {upper}_H\n#define {upper}_H\n\n"
            "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            f"enum {{ {', '.join(f'{upper}_{key} = {value}' for key, value in sizes.items())} }};\n\n"
            f"/* {said['forward']} */\nvoid {name}_forward({parameters}, float *out);\n\n"
            f"/* {said['act']} */\nvoid {name}_act({parameters}, {kind} *action);\n\n"
            "#ifdef __cplusplus\n}\n#endif\n\n#endif\n")


def _format_source(net: Net, name: str, origin: str) -> str:
    source = Source()
    _add_heads(source, net, add_layers(source, net.layers, _add_inputs(source, net)))
    choices = _list_choices(source, net)
    parameters, kind = ", ".join(_list_parameters(net)), "float" if net.actions.kind == "box" else "int"
    calls = [f"float out[{name.upper()}_OUTPUTS];", f"{name}_forward({', '.join(_list_arguments(net))}, out);", *choices]
    body = "".join(f"    {line}\n" for line in calls)
    return (f"{_format_head(net, source, origin)}#include \"{name}.h\"\n\n#include <math.h>\n\n"
            + "\n".join(source.arrays) + source.format_functions()
            + f"\nvoid {name}_forward({parameters}, float *out)\n{{\n{source.format_body()}}}\n"
            f"\nvoid {name}_act({parameters}, {kind} *action)\n{{\n{body}}}\n")


def write_c(policy: Policy, folder: Path, name: str, origin: str) -> list[Path]:
    """Writes NAME.c and NAME.h into a folder, which is made, and returns their paths. Raises InputError for a layer that
    C source does not compute, and for a net that is too large to be source."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise InputError(f"--name: expected a name of C, found {name!r}")
    net = read_net(policy)
    if net.count_parameters() > MOST_PARAMETERS:
        raise InputError(f"the net has {net.count_parameters()} parameters, and C source takes {MOST_PARAMETERS}; "
                         "a model of ONNX takes any number (--onnx)")
    texts = {folder / f"{name}.h": _format_header(net, name), folder / f"{name}.c": _format_source(net, name, origin)}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)
