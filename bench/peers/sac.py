# SPDX-License-Identifier: Apache-2.0
"""Updates of soft actor-critic on one core, with batches of 256 and nets of two hidden layers: updates per second. Heddle
plays one environment meanwhile, a step for each update; the PyTorch programs (sac_torch.py) play none."""

import contextlib
import functools

from turns import OURS, report, train
from worker import Worker

WIDTHS = (64, 256)
SETTINGS = ([], ["fused"], ["fused", "compile"])
WARM, UPDATES, ASKED = 400, 1000, 300


def heddle(options, width):
    layers = f"layers: [{{dense: {width}}}, relu, {{dense: {width}}}, relu]"
    sets = ["runtime.workers=1", "world.shards=1", "policy.learn.batch_size=256", "policy.learn.update_per_collect=1",
            "policy.random_collect_size=256", f"policy.model.{layers.replace(': [', '=[', 1)}",
            f"policy.critic={{input: [obs, action], {layers}, heads: {{value: {{type: dense}}}}}}"]
    line = train(options, "configs/pendulum_sac.yaml", "serial", UPDATES, WARM, sets)
    return line["updates_per_s"]


def run(options):
    for width in WIDTHS:
        contenders = {OURS: functools.partial(heddle, options, width)}
        with contextlib.ExitStack() as workers:
            for settings in SETTINGS:
                worker = workers.enter_context(Worker([0], "sac_torch.py", width, *settings))
                contenders[f"PyTorch, {' '.join(['CleanRL', *settings])}"] = functools.partial(worker.ask, updates=ASKED)
            report(options, f"sac: an update of nets of {width} x {width}, 1 core", "updates/s", contenders)
