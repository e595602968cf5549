# SPDX-License-Identifier: Apache-2.0
"""One iteration of Pong with PPO on two cores, DI-engine's config of it: seconds of a collect of 3,200
samples by 8 envs and of 10 epochs, 100 updates of 320 samples, with values and advantages anew for each
epoch. Evaluations are left out on both sides."""

import functools
import json
import os
import sys
import tempfile

from turns import OURS, execute, pinned, report, train

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS, UPDATES = 10, 100
SETTINGS = ["runtime.workers=2", "policy.collect.env_groups=2", "policy.learn.microbatch=160",
            "world.shards=auto"]


def heddle(options, precision, collects):
    """The second of its iterations; a third has begun by then."""
    line = train(options, "configs/pong_ppo_ddp.yaml", "serial", UPDATES, UPDATES,
                 [f"runtime.precision={precision}", *SETTINGS])
    seconds = UPDATES / line["updates_per_s"]
    collects.append(seconds * line["verbs"]["collect_on_policy"])
    return seconds


def di_engine(epochs, collects):
    """Its first iteration."""
    with tempfile.TemporaryDirectory(prefix="heddle-peers-") as scratch:
        path = os.path.join(scratch, "seconds.json")
        words = [sys.executable, os.path.join(HERE, "ppo_di_engine.py"), epochs, path]
        execute(pinned([0, 1], *words), cwd=scratch,
                env={**os.environ, "PYTHONPATH": HERE, "OMP_NUM_THREADS": "2"})
        with open(path, encoding="utf-8") as file:
            collect, learn = json.load(file)
    collects.append(collect)
    return collect + learn * EPOCHS / epochs


def run(options):
    collects = {}
    contenders = {}
    for precision in ("f32", "bf16"):
        name = f"{OURS} {precision}"
        collects[name] = []
        contenders[name] = functools.partial(heddle, options, precision, collects[name])
    epochs = 1 if options.short else EPOCHS
    name = "DI-engine" if epochs == EPOCHS else f"DI-engine, {epochs} epoch measured"
    collects[name] = []
    contenders[name] = functools.partial(di_engine, epochs, collects[name])
    case = "ppo: Pong, an iteration, 2 cores"
    measured = report(options, case, "s", contenders, settings=SETTINGS)
    report(options, f"{case}: its collect", "s",
           {name: iter(collects[name]).__next__ for name in measured}, settings=SETTINGS)
