#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel in bf16, f16 and int8: each precision, with and without error feedback, ends in one param_hash
on 1, 2 and 4 ranks, on one host and several, with every way of exchange, bucket size and scheduler; hosts send as many
bytes as the precision says; and CartPole is solved."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, Scratch, call, check, sets, train  # noqa: E402
from ways import check_ways, draw_ways  # noqa: E402

FIXED = dict(world__shards=4, env__stop_value="1e9", max_train_iter=40, policy__learn__microbatch=32)
# (ranks, nodes), and a way of exchange where there are several nodes
PLACES = [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (4, 4)]
FACTORS = {
    "place": PLACES,
    "runtime__exchange": ["auto", "direct", "pairs", "halves"],
    "strategy__bucket_mb": [25, 0.02, 0.05],
    "runtime__scheduler": ["lws", "prio", "random", "dmdas"],
    "runtime__workers": [1, 2],
    "runtime__executor": ["starpu", "starpu", "sequential"],
    "runtime__open_exchanges": [1, 4],
    "strategy__shard_optimizer_above_mb": [0, 1],
}
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "int8": 1}
BLOCK, SCALE = 4096, 4


def list_ways(seed):
    for way in draw_ways(FACTORS, seed, 24):
        ranks, nodes = way.pop("place")
        yield dict(way, ranks=ranks, nodes=nodes, runtime__transport="tcp" if nodes > 1 else "auto")


def check_bits(scratch):
    hashes = [train(scratch("f32"), **FIXED)["param_hash"]]
    for seed, (precision, feedback) in enumerate((p, f) for p in ("bf16", "f16", "int8") for f in (0, 1)):
        keys = dict(FIXED, strategy__exchange_precision=precision, strategy__error_feedback=feedback)
        hashes.append(check_ways(scratch, f"{precision} {feedback}", keys, list_ways(seed)))
    check(len(set(hashes)) == len(hashes), f"precisions that change nothing: {hashes}")


def count_parameters(directory):
    with open(os.path.join(directory, "ckpt/iteration_40/policy.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return max(ends) // 4


def count_sent(directory):
    with open(os.path.join(directory, "log/metrics.jsonl"), encoding="utf-8") as file:
        return max(json.loads(line).get("sent_bytes", 0) for line in file)


def check_bytes(scratch):
    """Everything else that two hosts send is the same, and a way of exchange has one message with a whole vector."""
    sent = {}
    for precision in BYTES:
        directory = scratch(f"bytes {precision}")
        train(directory, ranks=2, nodes=2, runtime__transport="tcp", strategy__exchange_precision=precision,
              strategy__shard_optimizer_above_mb=1000, **FIXED)
        sent[precision] = count_sent(directory)
    parameters = count_parameters(directory)
    for precision, size in BYTES.items():
        saved = (4 - size) * parameters - (precision == "int8") * SCALE * -(-parameters // BLOCK)
        found = (sent["f32"] - sent[precision]) / FIXED["max_train_iter"]
        check(abs(found - saved) <= 64, f"{precision} saves {found:.0f} bytes an update of {4 * parameters}, not {saved}")
    print(f"{parameters} parameters: {sent} bytes in {FIXED['max_train_iter']} updates")


def check_plan():
    plan = call("graph", CONFIG, "--strategy", "int8", "--ranks", "2", *sets(strategy__shard_optimizer_above_mb=0)).stdout
    check("mean(grad) [collective, exchanged in int8, not in slices" in plan and "adam [global" in plan, plan)
    said = call("graph", CONFIG, "--strategy", "bf16", *sets(runtime__reduction="nccl"), expect=2).stderr
    check(":19: runtime.reduction: NCCL adds gradients in f32" in said, said)


def check_learning(scratch):
    run = train(scratch("solved"), "--strategy", "int8", world__shards=2, ranks=2)
    print(f"int8: {run['reason']} after {run['train_iter']} updates")
    check(run["reason"] == "solved" and run["eval_value"] >= 195, "CartPole was not solved with int8")


def main():
    with Scratch() as scratch:
        check_plan()
        check_bytes(scratch)
        check_bits(scratch)
        check_learning(scratch)


main()
