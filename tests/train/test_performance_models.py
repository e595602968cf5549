#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Performance models change no bits. They are off by default, in the user's folder, and as StarPU's tools read them;
schedulers that need them have them. A folder that cannot be written is told of once."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, environment, result, sets, skip, train  # noqa: E402

SHORT = dict(world__shards=4, env__stop_value="1e9", max_train_iter=60)
LOSSES = SHORT["world__shards"] * SHORT["max_train_iter"]
SCHEDULERS = "dm", "dmda", "dmdas", "modular-heft"


def read_model(folder, verb):
    """{footprint: (bytes, mean in us, samples)} of a model's file."""
    paths = glob.glob(os.path.join(folder, "codelets/*", verb + ".*"))
    check(len(paths) == 1, f"files of {verb} in {folder}: {paths}")
    with open(paths[0], encoding="utf-8") as file:
        rows = [line.split() for line in file if re.match(r"[0-9a-f]{8}\t", line)]
    return {row[0]: (int(row[1]), float(row[3]), int(row[-1])) for row in rows}


def find_mean(directory, verb):
    """The mean time of a verb's bodies in us, as the run itself measures. StarPU leaves out what is far off."""
    with open(os.path.join(directory, "log/metrics.jsonl"), encoding="utf-8") as file:
        verbs = json.loads(file.readlines()[-1])["end"]["verbs"]
    return next(busy_s / n * 1e6 for name, n, busy_s in verbs if name == verb)


def check_key(scratch, reference):
    env = environment(STARPU_PERF_MODEL_DIR=scratch("models"))
    train(scratch("off"), env=env, **SHORT)
    check(not os.path.exists(scratch("models")), "models are kept, though nobody asked for them")
    found = train(scratch("on"), env=env, runtime__performance_models="true", **SHORT)["param_hash"]
    check(found == reference, f"with models: {found}, not {reference}")
    (size, mean, samples), = read_model(scratch("models"), "loss_grad").values()
    own = find_mean(scratch("on"), "loss_grad")
    check(size > 0 and 0 < samples < LOSSES and own / 100 < mean < own * 10,
          f"loss_grad: {size} bytes, {mean} us, {samples} of {LOSSES} samples; the run has {own} us")
    check(len(read_model(scratch("models"), "adam")) == 1, "adam has another shape than one")


def check_growth(scratch):
    """Another shape is another history, and that of an earlier run stays. Ranks of a host leave one file."""
    before = read_model(scratch("models"), "loss_grad")
    train(scratch("wide"), ranks=2, env=environment(STARPU_PERF_MODEL_DIR=scratch("models")), policy__learn__batch_size=256,
          runtime__performance_models="true", **SHORT)
    after = read_model(scratch("models"), "loss_grad")
    check(len(after) == 2 and after.items() >= before.items(), f"loss_grad: {before}, then {after}")


def check_schedulers(scratch, reference):
    """Also with one worker, which is the thread that submits."""
    for i, scheduler in enumerate(SCHEDULERS):
        folder = scratch("of " + scheduler)
        found = train(scratch(scheduler), ranks=1 + i % 2, env=environment(STARPU_PERF_MODEL_DIR=folder),
                      runtime__scheduler=scheduler, runtime__workers=2 - i // 2, **SHORT)["param_hash"]
        check(found == reference, f"{scheduler}: {found}, not {reference}")
        check(read_model(folder, "loss_grad"), f"{scheduler} kept no model")


def check_folder(scratch, reference):
    """By default where StarPU's tools look; a file in its place changes no result."""
    env = environment(HOME=scratch("home"))
    env.pop("XDG_CACHE_HOME", None)
    train(scratch("home run"), env=env, runtime__performance_models="true", **SHORT)
    check(read_model(scratch("home/.starpu/sampling"), "loss_grad"), "no model in the home folder")
    done = call("launch", "--nproc-per-node", "2", CONFIG, "--dir", scratch("nowhere"), "--quiet",
                *sets(runtime__performance_models="true", **SHORT), env=environment(STARPU_PERF_MODEL_DIR=__file__))
    check(done.stderr.count("performance models will not be kept: " + __file__) == 1, done.stderr)
    check(result(scratch("nowhere"))["param_hash"] == reference, "another result without the folder")


def check_tool(scratch):
    tool = os.path.join(ROOT, "build/starpu/bin/starpu_perfmodel_display")
    tool = tool if os.path.exists(tool) else shutil.which("starpu_perfmodel_display")
    if not tool:
        skip("there is no starpu_perfmodel_display (scripts/starpu, or the package starpu-tools)")
    done = subprocess.run([tool, "-s", "loss_grad"], text=True, capture_output=True,
                          env=environment(STARPU_PERF_MODEL_DIR=scratch("models")))
    rows = {line.split()[0] for line in done.stdout.splitlines() if re.match(r"[0-9a-f]{8}\t", line)}
    check(rows == read_model(scratch("models"), "loss_grad").keys(), done.stdout + done.stderr)


def main():
    with Scratch() as scratch:
        reference = train(scratch("reference"), **SHORT)["param_hash"]
        check_key(scratch, reference)
        check_growth(scratch)
        check_schedulers(scratch, reference)
        check_folder(scratch, reference)
        check_tool(scratch)


main()
