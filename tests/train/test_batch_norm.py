#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batch norm with synchronised statistics, end to end: CartPole cloned by a net that has it; the same bits, running
statistics included, on 1, 2 and 4 ranks, whatever schedulers and the like, and however samples are spread over shards
and microbatches; weights with norms act and record; mistakes."""

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, sets, train  # noqa: E402
from ways import draw_ways, take_share  # noqa: E402

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
GRAPH = os.path.join(ROOT, "configs/graphs/bc_norm.yaml")
NORM = dict(graph=GRAPH, policy__model__norm="sync_batch_norm")

FACTORS = {
    "ranks": [1, 2, 4],
    "runtime__scheduler": ["eager", "prio", "lws", "ws", "random", "modular-eager", "modular-prio", "modular-ws"],
    "runtime__workers": [1, 2, 4],
    "runtime__max_inflight_iterations": [1, 2, 4],
    "strategy__bucket_mb": [25, 0.02],
    "strategy__shard_optimizer_above_mb": [1000, 0],
    "strategy__batch_buffers": [1, 3],
    "strategy__eval_lag": [0, 2],
    "runtime__executor": ["starpu", "starpu", "sequential"],
}


def record(weights, out, transitions, *arguments, config=CONFIG):
    call("record", config, "--weights", weights, "--transitions", str(transitions), "--out", out, "--quiet",
         *arguments)


# -- Files -----------------------------------------------------------------------------------------

def read_file(path):
    """The JSON header of a safetensors file, and its data."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        return header, file.read()


def final_weights(directory):
    """The tensors: the metadata state the data set."""
    (name,) = [name for name in os.listdir(os.path.join(directory, "ckpt")) if name.startswith("iteration_")]
    header, data = read_file(os.path.join(directory, "ckpt", name, "policy.safetensors"))
    header.pop("__metadata__")
    return json.dumps(header), data


def reorder(source, target, order):
    """Transition i of the new data set is order[i] of the old one, a single file."""
    (name,) = os.listdir(source)
    header, data = read_file(os.path.join(source, name))
    parts, n = [], len(order)
    for tensor, entry in sorted(((k, v) for k, v in header.items() if k != "__metadata__"),
                                key=lambda item: item[1]["data_offsets"]):
        lo, hi = entry["data_offsets"]
        row = (hi - lo) // n
        parts.append(data[lo:hi] if tensor == "frames" else
                     b"".join(data[lo + i * row:lo + (i + 1) * row] for i in order))
    del header["__metadata__"]["hash"]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.mkdir(target)
    with open(os.path.join(target, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


# -- Learning --------------------------------------------------------------------------------------

def check_main_path(scratch):
    train(scratch("dqn"))
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("demos"), 10000)
    updates = []
    for ranks in (1, 2):
        outcome = train(scratch(f"clone{ranks}"), config=CLONE, ranks=ranks, **NORM,
                        policy__collect__data_path=scratch("demos"))
        check(outcome["reason"] == "solved" and outcome["eval_value"] >= 195, f"not cloned: {outcome}")
        updates.append(outcome["train_iter"])
    print(f"cloned in {updates} updates")
    best = scratch("clone1/ckpt/best/policy.safetensors")
    said = call("eval", CLONE, "--weights", best, "--episodes", "20", *sets(**NORM)).stdout
    check(float(said.split()[1]) >= 195, f"the cloned policy: {said}")
    header, _ = read_file(best)
    for name in ("encoder.init.1", "encoder.main.1", "encoder.main.4", "head.Q.0.1"):
        for buffer in ("running_mean", "running_var", "num_batches_tracked"):
            check(f"{name}.{buffer}" in header, f"no {name}.{buffer}")
    for out in ("again1", "again2"):  # what was cloned plays as well, and alike
        call("record", CLONE, "--weights", best, "--transitions", "2000", "--out", scratch(out), *sets(**NORM))
    files = [read_file(os.path.join(scratch(out), *os.listdir(scratch(out)))) for out in ("again1", "again2")]
    check(files[0] == files[1], "two recordings of one policy differ")


# -- Bits ------------------------------------------------------------------------------------------

def check_same_bits(scratch):
    """1003 transitions on 4 shards leave a short batch and, by the tail, padding or a shard with less."""
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("odd"), 1003, "--epsilon", "0.3")
    fixed = dict(config=CLONE, world__shards=4, env__stop_value="1e9", max_train_iter=60, **NORM,
                 policy__learn__batch_size=24, policy__learn__microbatch=8,
                 policy__eval__evaluator__eval_freq=20, policy__collect__data_path=scratch("odd"))
    hashes = {}
    for number, tail in enumerate(("pad", "uneven")):
        fixed["policy__learn__sampler__tail"] = tail
        hashes[tail] = train(scratch(tail), **fixed)["param_hash"]
        weights = final_weights(scratch(tail))
        for i, row in enumerate(take_share(draw_ways(FACTORS, number, 16 if tail == "pad" else 8), tail)):
            found = train(scratch(f"{tail}{i}"), **fixed, **row)["param_hash"]
            check(found == hashes[tail], f"{tail}, {row}: param_hash {found}, not {hashes[tail]}")
            check(final_weights(scratch(f"{tail}{i}")) == weights, f"{tail}, {row}: other running statistics")
        again = train(scratch(f"{tail}-again"), config=scratch(f"{tail}/total_config.yaml"))
        check(again["param_hash"] == hashes[tail], "the effective config does not re-run as it is")
    print(f"the same bits for every tail: {hashes}")


def check_empty_shards(scratch):
    """Of 3 transitions on 4 shards, one shard has none; of 1, three have none, and there is no variance."""
    for n in (3, 1):
        record(scratch("dqn/ckpt/best/policy.safetensors"), scratch(f"few{n}"), n)
        fixed = dict(config=CLONE, world__shards=4, env__stop_value="1e9", max_train_iter=20, **NORM,
                     policy__collect__data_path=scratch(f"few{n}"), policy__learn__sampler__tail="uneven")
        found = set()
        for ranks in (1, 2, 4):
            train(scratch(f"few{n}-{ranks}"), ranks=ranks, **fixed)
            found.add(final_weights(scratch(f"few{n}-{ranks}")))
        check(len(found) == 1, f"{n} transitions on 4 shards: other bits on other ranks")


def check_spread(scratch):
    """One shard with batches of 4 m, cut in microbatches of m, is four shards with batches of m."""
    m, batches, shards = 16, 12, 4
    n = m * batches * shards
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("four"), n, "--epsilon", "0.3")
    # Without shuffling, row r of batch k of shard s is sample (k m + r) shards + s.
    reorder(scratch("four"), scratch("one"),
            [(k * m + r) * shards + s for k in range(batches) for s in range(shards) for r in range(m)])
    fixed = dict(config=CLONE, env__stop_value="1e9", max_train_iter=30, **NORM,
                 policy__learn__sampler__shuffle="false")
    found = {}
    for name, keys in {
            "four": dict(world__shards=4, policy__learn__batch_size=m),
            "two": dict(world__shards=4, policy__learn__batch_size=m, ranks=2),
            "one": dict(world__shards=1, policy__learn__batch_size=4 * m, policy__learn__microbatch=m),
            "steps": dict(world__shards=1, policy__learn__batch_size=m, policy__learn__accumulate=4),
            "whole": dict(world__shards=1, policy__learn__batch_size=4 * m)}.items():
        data = "four" if keys["world__shards"] == 4 else "one"
        train(scratch(f"spread-{name}"), **fixed, **keys, policy__collect__data_path=scratch(data))
        found[name] = final_weights(scratch(f"spread-{name}"))
    check(found["four"] == found["two"] == found["one"] == found["steps"], "spreading samples changes bits")
    check(found["whole"] != found["one"], "a sum of microbatches has the bits of one of all rows: too few rows?")


# -- Mistakes --------------------------------------------------------------------------------------

def check_mistakes(scratch):
    said = call("run", CLONE, *sets(policy__model__norm="sync_batch_norm",
                                    policy__collect__data_path=scratch("demos")), expect=2).stderr
    check(all(word in said for word in ("graphs/bc.yaml:", "batch_norm_stats", "bc_norm.yaml")), said)
    done = call("eval", CLONE, "--weights", scratch("clone1/ckpt/best/policy.safetensors"), expect=None)
    check(done.returncode != 0 and "another net" in done.stderr, f"norms that are not asked for: {done.stderr}")


def main():
    with Scratch() as scratch:
        check_main_path(scratch)
        check_same_bits(scratch)
        check_empty_shards(scratch)
        check_spread(scratch)
        check_mistakes(scratch)


main()
