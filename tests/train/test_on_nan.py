#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runtime.on_nan: a loss that is no number stops the run, naming update and shard; or the update is
skipped, on all ranks alike, and the log says how many are; too many in a row stop the run."""

import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, Scratch, call, check, result, sets, train  # noqa: E402

# Parameters of a thousand in ten layers: activations overflow after a few updates.
WILD = dict(env__stop_value="1e9", max_train_iter=60, world__shards=2, policy__learn__learning_rate=1000,
            policy__model__encoder_hidden_size_list="[64,64,64,64,64,64,64,64,64,64]",
            policy__learn__microbatch=16)


def main():
    with Scratch() as scratch:
        done = call("run", CONFIG, "--dir", scratch("stopped"), "--quiet", *sets(**WILD), expect=1)
        check("(shard " in done.stderr, f"the message: {done.stderr}")
        update = int(done.stderr.partition(" of update ")[2].split()[0])
        check(1 < update < 60, f"update {update}")
        kept = os.path.join(scratch("stopped"), "failed")
        names = os.listdir(kept)
        check(names and all(name.startswith(f"update_{update}_shard_") for name in names), f"{names}")
        check(f"{kept}/{names[0]}" in done.stderr, done.stderr)
        with open(os.path.join(kept, names[0]), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        check(header["__metadata__"]["update"] == str(update), f"{header}")
        check(header["obs"]["shape"] == [64, 4] and header["obs"]["dtype"] == "F32" and header["action"]["shape"] == [64], f"{header}")

        skips = dict(WILD, runtime__on_nan="skip")
        done = call("run", CONFIG, "--dir", scratch("said"), *sets(**skips))
        check(f" of update {update} " in done.stderr and "skipped" in done.stderr, f"the message: {done.stderr[:500]}")
        check(done.stderr.count("is not a number") == 2, f"one line for each shard: {done.stderr[:2000]}")
        check(f" {60 - update + 1} of them skipped," in done.stderr, done.stderr[-1000:])
        found = {}
        for ranks, bucket_mb, executor in ((1, 25, "sequential"), (1, 0.02, "starpu"), (2, 25, "starpu"),
                                           (2, 0.02, "starpu")):
            directory = scratch(f"skips{ranks}_{bucket_mb}")
            end = train(directory, ranks=ranks, strategy__bucket_mb=bucket_mb, runtime__executor=executor, **skips)
            check(end["skipped"] == 60 - update + 1, f"{end}")
            found[ranks, bucket_mb] = end["param_hash"]
        check(len(set(found.values())) == 1, f"hashes: {found}")
        # What was there before the first skipped update stays.
        before = train(scratch("before"), **dict(skips, max_train_iter=update - 1))["param_hash"]
        check(before in found.values(), f"before update {update}: {before}, after: {found}")
        end_too_many(scratch, update, skips)


def end_too_many(scratch, update, skips):
    """The run ends after as many in a row as it may skip, with slices of Adam's moments on two ranks too."""
    sentence = "the losses of the last 20 updates were not numbers (runtime.nan_skips_max)"
    for ranks, above, more in ((1, 1, {}), (2, 1, {}), (2, 0, {}), (2, 1, dict(strategy__exchange_precision="f16"))):
        directory = scratch(f"many{ranks}_{above}{len(more)}")
        start = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
        keys = dict(skips, runtime__nan_skips_max=20, strategy__shard_optimizer_above_mb=above, **more)
        done = call(*start, CONFIG, "--dir", directory, "--quiet", *sets(**keys), expect=1)
        check(f"{sentence}; the last one is {update + 19}" in done.stderr, f"{ranks}, {above}: {done.stderr[-2000:]}")
        check("nan_skips_max" in result(directory)["detail"], f"{ranks}, {above}: result.json")


if __name__ == "__main__":
    main()
