# SPDX-License-Identifier: Apache-2.0
"""One update on one core, uint8 frames to new weights, in CPU time: PyTorch in every way that might be its
best, against the kernels of Heddle. Here those of DQN, batch 32."""

import functools

from turns import OURS, part, report
from worker import Worker

BATCHES = {"pong": 32, "nature": 32}  # by net
# How PyTorch may do it, by what it computes. What `pure` leaves out, an optimizer in f32, is what
# makes training with bf16 weights work.
WAYS = {
    "f32": [["contiguous"], ["channels_last"], ["compile"], ["compile", "channels_last"]],
    "bf16": [["autocast", "channels_last"], ["master"], ["master", "channels_last"],
             ["compile", "autocast", "channels_last"], ["compile", "master"],
             ["compile", "master", "channels_last"]],
    "bf16 weights and optimizer": [["pure"], ["pure", "channels_last"], ["compile", "pure"]],
}


def choose(ask):
    """The two fastest ways for each kind of arithmetic, each tried for about a second."""
    chosen = {}
    for kind, ways in WAYS.items():
        tried = {tuple(way): ask(way=way, seconds=1) for way in ways}
        for way, ms in tried.items():
            print(f"  tried {kind:28s} {' '.join(way):36s} {ms:8.1f} ms", flush=True)
        chosen[kind] = sorted(tried, key=tried.get)[:2]
    return chosen


def compare(options, algorithm, batches):
    for net, batch in batches.items():
        case = f"{algorithm} update {net}" if algorithm != "dqn" else f"update {net}"
        print(f"\n{case}: PyTorch's ways", flush=True)
        with Worker([1], "update_torch.py") as worker:
            ask = functools.partial(worker.ask, algorithm=algorithm, net=net, batch=batch)
            chosen = choose(ask)
            for precision in ("f32", "bf16"):
                contenders = {f"{OURS} {precision}": functools.partial(part, options, "update", net,
                                                                       precision, batch)}
                for kind, ways in chosen.items():
                    for way in ways if kind.startswith(precision) else []:
                        name = f"PyTorch {kind}, {' '.join(way)}"
                        contenders[name] = functools.partial(ask, way=way, seconds=1.5)
                report(options, f"{case} {precision}, batch {batch}, 1 core", "ms", contenders)


def run(options):
    compare(options, "dqn", BATCHES)
