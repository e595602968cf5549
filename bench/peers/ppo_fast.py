# SPDX-License-Identifier: Apache-2.0
"""Training Pong with PPO on two cores by the recipe of configs/pong_ppo_fast.yaml, start-up and evaluations
left out: env steps per second over several iterations. The Python program is ppo_fast_torch.py: in the two
best of its settings, and as such programs usually are. `pipelined` collects with the policy of one iteration
ago, which PyTorch's programs do not."""

import contextlib
import functools

from turns import OURS, report, train
from worker import Worker

WARM, UPDATES = 32, 128  # 16 an iteration
STRATEGIES = ("serial", "pipelined")
# First the arithmetic, then what may be done otherwise with the best of these.
ARITHMETIC = ([], ["autocast"], ["master"], ["compile", "autocast"], ["compile", "master"])
OTHERWISE = ({"ranks"}, {"ranks", "overlap"}, {"keep"}, {"envpool"})
USUAL = ("envpool", "autocast", "channels_last")  # CleanRL's way, with bf16


def heddle(options, strategy):
    line = train(options, "configs/pong_ppo_fast.yaml", strategy, UPDATES, WARM, ["runtime.workers=2"])
    return line["env_steps_per_s"]["median"]


def start(settings):
    return Worker([0, 1], "ppo_fast_torch.py", *settings)


def attempt(settings):
    with start(settings) as worker:
        worker.ask(iterations=1)
        rate = worker.ask(iterations=4)
    print(f"  tried {' '.join(settings):56s} {rate:8.0f} env steps/s", flush=True)
    return rate


def choose():
    common = ["channels_last", "keep", "ranks"]
    tried = {(*common, *way): attempt([*common, *way]) for way in ARITHMETIC}
    first = max(tried, key=tried.get)
    for change in OTHERWISE:
        settings = tuple(sorted(set(first) ^ change))
        tried[settings] = attempt(settings)
    return sorted(tried, key=tried.get)[-1:-3:-1]


def run(options):
    print("\nppo_fast: PyTorch's settings", flush=True)
    contenders = {f"{OURS} {strategy}": functools.partial(heddle, options, strategy)
                  for strategy in STRATEGIES}
    with contextlib.ExitStack() as workers:
        for settings in [*choose(), USUAL]:
            worker = workers.enter_context(start(settings))
            worker.ask(iterations=1)
            contenders[f"PyTorch, {' '.join(settings)}"] = functools.partial(worker.ask, iterations=6)
        report(options, "ppo_fast: Pong from pixels, 2 cores", "env steps/s", contenders)
