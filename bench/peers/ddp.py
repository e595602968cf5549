# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one core each, batch 32 per rank, f32: updates with their exchange of gradients, 57 MB of
the Pong net and 7 MB of the Nature net; collecting costs next to nothing. `apart` is two processes that
train alone at the same time: what an exchange that costs nothing would reach."""

import functools
import json
import os
import statistics
import subprocess
import tempfile

from turns import OURS, ROOT, Missing, environment, pinned, report
from worker import Worker

BATCH = 32
CONFIG = "bench/peers/updates.yaml"
NETS = {"pong": "[128, 128, 512], dueling: true", "nature": "[32, 64, 64, 512], dueling: false"}
UPDATES = {"pong": 20, "nature": 100}  # a few seconds


def start(options, net, strategy, ranks, cores, path):
    words = [f"{options.build}/runner", "bench", CONFIG, "--strategies",
             os.path.abspath(f"configs/strategies/{strategy}.yaml"), "--ranks", ranks, "--json", path,
             "--updates", UPDATES[net], "--warmup", 20, "--repeats", 1, "--quiet",
             "--set", "policy.model={obs_shape: [4, 84, 84], action_shape: 6, "
             f"encoder_hidden_size_list: {NETS[net]}}}"]
    return subprocess.Popen(pinned(cores, *words), cwd=ROOT, env=environment(options), text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def milliseconds(process, path):
    try:
        _, said = process.communicate()
    finally:
        process.terminate()
    if process.returncode != 0:
        raise Missing((said.splitlines() or [f"exit code {process.returncode}"])[0])
    with open(path, encoding="utf-8") as file:
        return 1e3 / json.loads(file.readline())["updates_per_s"]


def together(options, net, strategy):
    with tempfile.TemporaryDirectory(prefix="heddle-peers-") as scratch:
        path = os.path.join(scratch, "line.jsonl")
        return milliseconds(start(options, net, strategy, 2, [0, 1], path), path)


def apart(options, net):
    with tempfile.TemporaryDirectory(prefix="heddle-peers-") as scratch:
        paths = [os.path.join(scratch, f"{core}.jsonl") for core in (0, 1)]
        processes = [start(options, net, "serial", 1, [core], path) for core, path in enumerate(paths)]
        return statistics.mean(milliseconds(*pair) for pair in zip(processes, paths))


def run(options):
    with Worker([0, 1], "ddp_torch.py", env={"OMP_NUM_THREADS": "1"}) as worker:
        for net in NETS:
            ask = functools.partial(worker.ask, net=net, batch=BATCH, seconds=3)
            contenders = {f"{OURS} {strategy}": functools.partial(together, options, net, strategy)
                          for strategy in ("serial", "bucketed")}
            contenders[f"{OURS} apart"] = functools.partial(apart, options, net)
            for way in ("none", "ddp", "flat", "per_tensor"):
                name = "PyTorch apart" if way == "none" else f"PyTorch {way}"
                contenders[name] = functools.partial(ask, way=way)
            medians = report(options, f"ddp {net}, batch {BATCH} per rank, 2 ranks x 1 core, f32", "ms",
                             contenders, judged=[f"{OURS} serial", f"{OURS} bucketed"])
            for whose, way in ((OURS, "serial"), (OURS, "bucketed"), ("PyTorch", "ddp")):
                if {f"{whose} {way}", f"{whose} apart"} <= medians.keys():
                    share = medians[f"{whose} apart"] / medians[f"{whose} {way}"]
                    print(f"  {whose} {way} reaches {share:.2f} of its two processes apart")
