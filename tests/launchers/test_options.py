#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words and options of torchrun's that users of `runner launch` type: understood, or refused with what there is."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, Scratch, call, check, result, sets  # noqa: E402

KNOWN = "Of torchrun's options runner launch has --nproc-per-node, --nnodes, --node-rank, --master-addr, " \
        "--master-port, --standalone and --max-restarts"
REFUSED = (
    (["--nnodes", "1:4", "--insecure"], "torchrun starts the ranks: torchrun --nnodes=1:4 --rdzv-backend=c10d"),
    (["--nnodes=0"], "--nnodes: expected a number from 1 to 4096, found '0'"),
    (["--nproc-per-node", "many"], "expected a number from 1 to 4096, cpu, gpu or auto, found 'many'"),
    (["--nproc_per_node=4097"], "expected a number from 1 to 4096, cpu, gpu or auto, found '4097'"),
    (["--rdzv-backend", "c10d"], "--rdzv-backend is torchrun's"),
    (["--rdzv_endpoint=host:29400"], "HOST:PORT is --master-addr HOST --master-port PORT"),
    (["--rdzv-id", "job"], KNOWN),
    (["--log-dir", "logs"], "logs are in the run directory (--dir)"),
)


def main():
    for options, expected in REFUSED:
        done = call("launch", *options, CONFIG, expect=2)
        check(expected in done.stderr and done.stderr.count("error: ") == 1, f"{options}: {done.stderr}")
    done = call("launch", "--nproc-per-node", "gpu", CONFIG, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, expect=2)
    check("--nproc-per-node gpu: CUDA shows no GPU to this process" in done.stderr, done.stderr)
    with Scratch() as scratch:
        cores = sorted(os.sched_getaffinity(0))[:2]
        os.sched_setaffinity(0, cores)
        call("launch", "--nproc-per-node", "cpu", CONFIG, "--dir", scratch("cpu"), "--quiet",
             *sets(max_train_iter=10, world__shards="auto"))
        check(1 <= result(scratch("cpu"))["ranks"] <= len(cores), "a rank per core")


main()
