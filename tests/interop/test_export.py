#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heddle export: models of ONNX under onnxruntime, and compiled C source, have the outputs and actions of the package for
1,000 observations, for the shipped run files and for nets that together have every layer; what cannot be exported is
refused; and the examples of docs/howto/ship.md run."""

import contextlib
import ctypes
import io
import os
import re
import subprocess
import sys

from heddle_package import heddle
from drawn_nets import NETS, write_run  # behind the one that skips
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, skip, train
from short_runs import find_config, list_configs, shorten
from ways import take_share

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")
from heddle.commands import main as run_heddle
from heddle.export.c_layers import LAYERS as C_LAYERS
from heddle.export.c_policy import MOST_PARAMETERS
from heddle.export.net import read_net
from heddle.export.onnx_layers import LAYERS as ONNX_LAYERS

ROWS, STEPS = 20, 50  # episodes side by side, and their steps
CC = ["cc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared", "-fPIC"]


def export(*arguments, expect=0):
    """What `heddle export` prints on both streams."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run_heddle(["export", *map(str, arguments)])
    check(code == expect, f"heddle export {arguments} ended with {code}: {printed.getvalue()}")
    return printed.getvalue()


# -- What heddle computes ----------------------------------------------------------------------------------------------


def draw_array(rng, shape, dtype, integers):
    if dtype == np.uint8 or integers:
        return rng.integers(0, integers or 256, (STEPS, ROWS, *shape)).astype(dtype)
    return rng.normal(size=(STEPS, ROWS, *shape)).astype(dtype)


def draw_obs(policy, net, integers=0):
    """{name: array} with the names that the model of ONNX has, in the order of the net's inputs."""
    rng, parts = np.random.default_rng(3), policy.observation_parts
    if not parts:
        return {"obs": draw_array(rng, policy.observation_shape, policy.observation_dtype, integers)}
    return {part.part: draw_array(rng, *parts[part.part], 0) for part in net.inputs}


def compute(policy, obs):
    """Outputs [steps, rows, ...] and actions of heddle, and the states before each step."""
    given = obs.get("obs", obs)
    if not policy.state_size:
        return policy.forward(given), policy.act(given), None
    outputs, actions, states, state = [], [], [], np.zeros((ROWS, policy.state_size), np.float32)
    for step in range(STEPS):
        states.append(state)
        outputs.append(policy.forward_step(given[step], state, find_begins(step))[0])
        action, state = policy.predict(given[step], state, find_begins(step))
        actions.append(action)
    return np.stack(outputs), np.stack(actions), states


def find_begins(step):
    """Episodes begin at the first step, and once more at a step that differs from row to row."""
    return (np.arange(ROWS) + 3 == step) | (step == 0)


def find_tolerance(net, outputs):
    """Two sums of n products, added in different orders, differ by up to n units of rounding of the sum of their sizes;
    the layers' differences add up. A unit is 2^-24; with products of bf16 each factor is off by 2^-9, and so is what
    is kept between the layers, which outweighs the order."""
    products = [tensor.shape for layer in net.list_layers() for tensor in layer.tensors.values() if tensor.ndim > 1]
    units = sum(int(np.prod(shape[1:])) for shape in products) * 2.0 ** -24
    if net.precision == "bf16":
        units = len(products) * 3 * 2.0 ** -9
    return units * max(1, np.abs(outputs).max())


def compare(what, wanted, found):
    """What heddle computes, in floats and by policies of bf16 in bf16 too, with (outputs, actions) of an export."""
    for policy, net, outputs, actions in wanted:
        error, tolerance, ties = compare_with(what, policy, net, outputs, actions, *found)
        print(f"{what} differs by {error:.1e} of {tolerance:.1e} ({net.precision}), {ties} ties", flush=True)


def compare_with(what, policy, net, outputs, actions, other, chosen):
    tolerance = find_tolerance(net, outputs)
    error = np.abs(outputs - other).max()
    check(error <= tolerance, f"{what}: outputs differ by {error:.1e}, more than {tolerance:.1e}")
    if policy.actions.kind == "box":
        actions = np.clip(actions, net.low, net.high)
        reach = max(1, np.abs(net.high - net.low).max() / 2) if net.squashed else 1
        check(np.abs(actions - chosen).max() <= reach * tolerance, f"{what}: actions differ by {np.abs(actions - chosen).max()}")
        check(((net.low <= chosen) & (chosen <= net.high)).all(), f"{what}: actions lie beyond the bounds")
        return error, tolerance, 0
    ties = compare_choices(what, net, outputs, tolerance, *(array.reshape(ROWS * STEPS, -1) for array in (actions, chosen)))
    return error, tolerance, ties


def compare_choices(what, net, outputs, tolerance, actions, chosen):
    """Choices may differ where two of them are as good but for rounding. How many do."""
    sizes = net.actions.n
    values = outputs[..., :net.numbers].reshape(ROWS * STEPS, sum(sizes), -1).mean(2)
    rows = np.arange(ROWS * STEPS)
    ties, first = 0, 0
    for i, n in enumerate(sizes):
        of_choice = values[:, first:first + n]
        gap = of_choice[rows, actions[:, i]] - of_choice[rows, chosen[:, i]]
        check((gap <= 2 * tolerance).all(), f"{what}: another choice is worse by {gap.max():.1e}")
        ties += int((actions[:, i] != chosen[:, i]).sum())
        first += n
    return ties


# -- ONNX --------------------------------------------------------------------------------------------------------------


def run_onnx(path, policy, obs, states):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    if not policy.state_size:
        flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in obs.items()}
        found = session.run(["outputs", "action"], flat)
        one = session.run(["outputs", "action"], {name: array[:1] for name, array in flat.items()})
        check(np.abs(found[0][:1] - one[0]).max() <= 1e-4 * max(1, np.abs(found[0]).max()), f"{path}: one row alone")
        return [array.reshape(STEPS, ROWS, *array.shape[1:]) for array in found]
    found, state = [], np.full((ROWS, policy.state_size), 7, np.float32)  # which does not count where episodes begin
    for step in range(STEPS):
        given = {"obs": obs["obs"][step], "state": state, "episode_start": find_begins(step)}
        outputs, action, state = session.run(["outputs", "action", "next_state"], given)
        found.append((outputs, action))
        if step + 1 < STEPS:
            check(np.abs(state - states[step + 1]).max() < 1e-4, f"{path}: states differ after step {step}")
    return [np.stack(arrays) for arrays in zip(*found)]


def check_onnx(scratch, name, source, policy, net, obs, wanted, states):
    path = scratch(f"{name}.onnx")
    check(export(source, "--onnx", path) == f"wrote {path}\n", f"{name}: what the command prints")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    check(metadata["heddle_version"] == heddle.__version__ and "obs_shape" in metadata["heddle_policy"], f"{name}: {metadata}")
    check([(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)], f"{name}: {model.opset_import}")
    compare(f"{name} as ONNX", wanted, run_onnx(path, policy, obs, states))


# -- C -----------------------------------------------------------------------------------------------------------------


def run_c(library, prefix, policy, obs):
    """Row by row, with states that the caller keeps."""
    functions = [getattr(library, f"{prefix}_{name}") for name in ("forward", "act")]
    box = policy.actions.kind == "box"
    outputs = np.full((STEPS, ROWS, policy.outputs), np.nan, np.float32)
    actions = np.full((STEPS, ROWS, policy.actions.dims), -1, np.float32 if box else np.int32)
    states = np.zeros((2, ROWS, max(1, policy.state_size)), np.float32)
    for step in range(STEPS):
        states[:, find_begins(step)] = 0
        for row in range(ROWS):
            inputs = [array[step, row].ctypes for array in obs.values()]
            for function, state, to in zip(functions, states[:, row], (outputs, actions)):
                given = [*inputs, *([state.ctypes] if policy.state_size else []), to[step, row].ctypes]
                function(*(ctypes.c_void_p(array.data) for array in given))
    return outputs, actions


def check_c(scratch, name, source, policy, net, obs, wanted):
    if net.count_parameters() > MOST_PARAMETERS:
        said = export(source, "--c", scratch(f"{name}_c"), expect=2)
        check(f"{net.count_parameters()} parameters" in said and "--onnx" in said, f"{name}: {said}")
        check(not os.path.exists(scratch(f"{name}_c")), f"{name}: a folder was made")
        print(f"{name}: too large for C")
        return
    export(source, "--c", scratch(f"{name}_c"), "--name", f"the_{name}")
    code, library = (scratch(f"{name}_c/the_{name}.{end}") for end in ("c", "so"))
    subprocess.run([*CC, code, "-o", library, "-lm"], check=True)
    subprocess.run(["c++", "-fsyntax-only", "-x", "c++", code[:-1] + "h"], check=True)
    with open(code, encoding="utf-8") as file:
        text = file.read()
    check(re.findall(r"#include (\S+)", text) == [f'"the_{name}.h"', "<math.h>"] and "alloc" not in text, f"{name}: dependences")
    check(source in text.partition("*/")[0], f"{name}: the source does not say where it comes from")
    compare(f"{name} as C", wanted, run_c(ctypes.CDLL(library), f"the_{name}", policy, obs))


def check_policy(scratch, name, source, integers=0, in_floats=None):
    """Exports a run directory or a file of weights, which heddle may compute in floats too."""
    policy = heddle.load(source)
    net = read_net(policy)
    obs = draw_obs(policy, net, integers)
    outputs, actions, states = compute(policy, obs)
    check(np.ptp(outputs, axis=(0, 1)).max() > 1e-3, f"{name}: outputs hardly change")
    wanted = [(policy, net, outputs, actions)]
    if in_floats:
        wanted.append((in_floats, read_net(in_floats), *compute(in_floats, obs)[:2]))
    check_onnx(scratch, name, source, policy, net, obs, wanted, states)
    check_c(scratch, name, source, policy, net, obs, wanted)
    return net


# -- All of them -------------------------------------------------------------------------------------------------------


def check_drawn(scratch):
    seen = set()
    for name, net in NETS.items():
        write_run(scratch(name), net)
        seen |= {layer.type for layer in check_policy(scratch, name, scratch(name), net.get("integers", 0)).list_layers()}
    for table in (ONNX_LAYERS, C_LAYERS):
        check(seen == set(table), f"layers of no net here: {set(table) ^ seen}")


def check_shipped(scratch, name):
    run = train(scratch(name), config=find_config(name), **shorten(name))
    weights = os.path.join(scratch(name), run["weights"])
    check_policy(scratch, name, weights, in_floats=load_in_floats(scratch(name), weights))


def check_clone(scratch):
    """The shipped run file that learns from a data set, here of a policy that nobody trained for long."""
    teacher = train(scratch("teacher"), max_train_iter=4, env__stop_value="1e9")["weights"]
    call("record", CONFIG, "--weights", os.path.join(scratch("teacher"), teacher), "--transitions", "256", "--out",
         scratch("demos"), "--quiet")
    run = train(scratch("clone"), config=find_config("cartpole_bc_ddp"), policy__collect__data_path=scratch("demos"),
                max_train_iter=4, env__stop_value="1e9", world__shards=1)
    check_policy(scratch, "clone_of", os.path.join(scratch("clone"), run["weights"]))


def load_in_floats(directory, weights):
    """A policy that computes in bf16 as one that computes in floats; None: it does that."""
    with open(os.path.join(directory, "total_config.yaml"), encoding="utf-8") as file:
        text = file.read()
    if "precision: bf16" not in text:
        return None
    with open(os.path.join(directory, "in_floats.yaml"), "w", encoding="utf-8") as file:
        file.write(text.replace("precision: bf16", "precision: f32"))
    return heddle.load(file.name, weights)


def run_apart(scratch, *words, **env):
    """Python in a process of its own, to which packages and the library may be missing."""
    return subprocess.run([sys.executable, *words], cwd=scratch.path, text=True, capture_output=True, check=False,
                          env=environment(PYTHONPATH=os.path.join(ROOT, "python"), **env))


def check_refusals(scratch):
    source = scratch("vector")
    check("--onnx FILE" in export(source, expect=2), "nothing to write")
    check("there is no" in export(scratch("nowhere"), "--onnx", scratch("x.onnx"), expect=2), "a directory that is not there")
    check("name of C" in export(source, "--c", scratch("x"), "--name", "9a", expect=2), "a name that C does not take")
    check("cannot be written" in export(source, "--onnx", scratch("no/x.onnx"), expect=1), "a folder that is not there")
    for table, form, option in ((ONNX_LAYERS, "ONNX", ("--onnx", scratch("x.onnx"))), (C_LAYERS, "C", ("--c", scratch("x")))):
        gelu = table.pop("gelu")
        said = export(source, *option, expect=2)
        table["gelu"] = gelu
        check(f"the layer layers.3.1 (gelu) cannot be exported as {form}" in said, f"an unknown layer: {said}")
    check(not os.path.exists(scratch("x")) and not os.path.exists(scratch("x.onnx")), "what was refused left files")
    program = f"import sys; sys.modules['onnx'] = None; from heddle.commands import main; sys.exit(main({['export', source, '--onnx', 'x']}))"
    done = run_apart(scratch, "-c", program)
    check(done.returncode == 1 and "pip install 'heddle[export]'" in done.stderr, f"without onnx: {done}")
    done = run_apart(scratch, "-m", "heddle", "export", source, "--onnx", "x", HEDDLE_INFER_LIBRARY="/nothing")
    check(done.returncode == 1 and done.stderr.startswith("error: heddle needs its C library"), f"without the library: {done}")


# -- Documents ---------------------------------------------------------------------------------------------------------


def check_document(scratch):
    """The examples of the how-to, in the order in which they stand there, where its run is."""
    folder = scratch("document")
    train(os.path.join(folder, "cartpole_dqn_ddp"), world__shards=1, max_train_iter=80, env__stop_value="1e9")
    with open(os.path.join(ROOT, "docs/howto/ship.md"), encoding="utf-8") as file:
        sections = file.read().partition("## 4 ")[0]
    blocks = re.findall(r"```(sh|python)\n(.*?)```", sections, re.S)
    env = environment(PYTHONPATH=os.path.join(ROOT, "python"), HEDDLE_RUNNER=RUNNER, PYTHON=sys.executable)
    for kind, text in blocks:
        script = f'heddle() {{ "$PYTHON" -m heddle "$@"; }}\n{text}'
        command = ["bash", "-euc", script] if kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=folder, env=env, text=True, capture_output=True, check=False)
        check(done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}")
    check([kind for kind, _ in blocks] == ["sh", "python", "sh", "sh"], f"blocks {[kind for kind, _ in blocks]}")
    with open(os.path.join(folder, "curves.csv"), encoding="utf-8") as file:
        check(len(file.readlines()) > 2, "the table has no rows")


def main():
    with Scratch() as scratch:
        check_drawn(scratch)
        check_refusals(scratch)
        for name, _ in take_share(list_configs(), "export", 6):
            check_shipped(scratch, name)
        check_clone(scratch)
        check_document(scratch)


main()
