# SPDX-License-Identifier: Apache-2.0
"""One DQN update of batch 32 on one core, uint8 frames to new weights, in CPU time: PyTorch in every way
that might be its best, against the kernels of Heddle."""

import functools

from turns import OURS, part, report
from worker import Worker

BATCH = 32
NETS = ("pong", "nature")
# How PyTorch may do it, by what it computes. What `pure` leaves out, an optimizer in f32, is what
# makes training with bf16 weights work.
WAYS = {
    "f32": [["contiguous"], ["channels_last"], ["compile"], ["compile", "channels_last"]],
    "bf16": [["autocast", "channels_last"], ["master"], ["master", "channels_last"],
             ["compile", "autocast", "channels_last"], ["compile", "master"]],
    "bf16 weights and optimizer": [["pure"], ["pure", "channels_last"], ["compile", "pure"]],
}


def choose(worker, net):
    """The fastest way for each kind of arithmetic, each tried for about a second."""
    chosen = {}
    for kind, ways in WAYS.items():
        tried = {tuple(way): worker.ask(net=net, way=way, batch=BATCH, seconds=1) for way in ways}
        for way, ms in tried.items():
            print(f"  tried {net:8s} {kind:28s} {' '.join(way):36s} {ms:8.1f} ms", flush=True)
        chosen[kind] = min(tried, key=tried.get)
    return chosen


def run(options):
    print("\nupdate: PyTorch's ways", flush=True)
    with Worker([1], "update_torch.py") as worker:
        for net in NETS:
            chosen = choose(worker, net)
            ask = functools.partial(worker.ask, net=net, batch=BATCH, seconds=1.5)
            for precision in ("f32", "bf16"):
                contenders = {f"{OURS} {precision}": functools.partial(part, options, "update", net,
                                                                       precision, BATCH)}
                for kind, way in chosen.items():
                    if kind.startswith(precision):
                        name = f"PyTorch {kind}, {' '.join(way)}"
                        contenders[name] = functools.partial(ask, way=way)
                report(options, f"update {net} {precision}, batch {BATCH}, 1 core", "ms", contenders)
