# SPDX-License-Identifier: Apache-2.0
"""Stepping 8 Atari Pongs with random actions on one core: agent steps per second of CPU time, each four
frames, maximum of two, gray, 84 x 84, resets included. ALE's vector env and EnvPool hand out stacks of four
frames; Heddle's envs show frames, which replay stacks by index."""

import functools

from turns import OURS, part, report
from worker import Worker

ENVS = 8


def run(options):
    with Worker([1], "envs_python.py") as worker:
        contenders = {f"{OURS} atari": functools.partial(part, options, "envs", "atari", ENVS, 4,
                                                         "PongNoFrameskip-v4")}
        for library in ("ale_py", "envpool"):
            contenders[library] = functools.partial(worker.ask, library=library, envs=ENVS, seconds=2)
        report(options, f"envs: {ENVS} x Pong, 1 core", "steps/s", contenders)
