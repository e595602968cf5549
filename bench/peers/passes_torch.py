# SPDX-License-Identifier: Apache-2.0
"""A worker that passes through nets in PyTorch: {net, what: act or update, way, rows, steps, seconds} ->
milliseconds of CPU time that a pass takes (median), or why PyTorch cannot. An update is forward and backward,
with given derivatives by the outputs."""

import os
import statistics
import time

import torch

import net
from worker import serve

passes = {}


def make_state(name, sequences, cell, kind):
    if name not in net.RECURRENT:
        return ()
    state = torch.zeros((sequences, net.UNITS) if cell else (1, sequences, net.UNITS), dtype=kind)
    return ((state, state.clone()),) if name == "lstm" else (state,)


def make_input(name, rows, steps, cell, kind, layout):
    torch.manual_seed(0)
    if name in net.RECURRENT:
        return torch.rand(*((rows,) if cell else (rows // steps, steps)), net.UNITS, dtype=kind)
    shape = net.LISTS[name][0]
    if len(shape) == 1:
        return torch.rand(rows, *shape, dtype=kind)
    frames = torch.randint(0, 256, (rows, *shape), dtype=torch.uint8)
    return lambda: frames.to(dtype=kind, memory_format=layout).mul_(1 / 255)


def make_pass(name, what, way, rows, steps):
    kind = torch.bfloat16 if "pure" in way else torch.float32
    layout = torch.channels_last if "channels_last" in way else torch.contiguous_format
    cell = "cell" in way
    torch.manual_seed(0)
    module = net.Listed(name, cell).to(dtype=kind, memory_format=layout)
    x, state = make_input(name, rows, steps, cell, kind, layout), make_state(name, rows // steps, cell, kind)
    take = x if callable(x) else lambda: x
    run = module
    if "onednn" in way:
        torch.jit.enable_onednn_fusion(True)
        run = torch.jit.freeze(torch.jit.trace(module.eval(), (take(), *state)))
    elif "compile" in way:
        run = torch.compile(module, dynamic=False)

    def forward():
        with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in way):
            return run(take(), *state)[:2]

    def act():
        with torch.no_grad():
            forward()

    outputs = [torch.rand_like(y) - 0.5 for y in forward()]

    def update():
        module.zero_grad(set_to_none=True)
        torch.autograd.backward(forward(), outputs)

    return act if what == "act" else update


def measure(request):
    words = {name: request[name] for name in ("name", "what", "way", "rows", "steps")}
    key = str(words)
    if key not in passes:
        try:
            passes[key] = make_pass(**words)
            for _ in range(3):
                passes[key]()
        except Exception as error:  # of any kind, from a compiler or a library
            return (str(error).splitlines() or [repr(error)])[0]
    calls, times, end = 1, [], time.process_time() + request["seconds"]
    while time.process_time() < end or len(times) < 5:
        begin = time.process_time()
        for _ in range(calls):
            passes[key]()
        times.append((time.process_time() - begin) / calls)
        calls = max(1, int(0.02 / times[-1]))
    return 1e3 * statistics.median(times[1:])


torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_flush_denormal(True)
serve(measure)
