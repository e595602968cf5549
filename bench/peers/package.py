# SPDX-License-Identifier: Apache-2.0
"""What Python programs call, on one core: actions for numpy arrays by the net of CartPole's DQN, in PyTorch and by the
package `heddle`; and stepping 16 CartPoles, by gymnasium's vector environments and by the package's."""

import functools
import os
import subprocess
import tempfile

from machine import ROOT
from turns import OURS, environment, report
from worker import Worker

ROWS = (1, 256)
ENVS = 16
WAYS = ("PyTorch", "PyTorch, frozen")
VECTORS = ("SyncVectorEnv", "CartPoleVectorEnv")


def train(options, folder):
    subprocess.run([f"{options.build}/runner", "run", "configs/cartpole_dqn_ddp.yaml", "--dir", folder, "--quiet",
                    "--set", "max_train_iter=40"], cwd=ROOT, env=environment(options), check=True)


def run(options):
    library = os.path.abspath(f"{options.build}/libheddle-infer.so")
    env = {"HEDDLE_INFER_LIBRARY": library, "PYTHONPATH": os.pathsep.join(os.path.join(ROOT, folder) for folder in ("bench", "python"))}
    subprocess.run(["cmake", "--build", options.build, "--target", "heddle-infer"], check=True,
                   stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="heddle-peers-") as scratch:
        folder = os.path.join(scratch, "run")
        train(options, folder)
        with Worker([1], "package_python.py", folder, env=env) as worker:
            for rows in ROWS:
                contenders = {name: functools.partial(worker.ask, what="act", name=name, rows=rows)
                              for name in (OURS, *WAYS)}
                report(options, f"python: act, CartPole's net, {rows} rows, 1 core", "us", contenders)
            contenders = {name: functools.partial(worker.ask, what="step", name=name, envs=ENVS)
                          for name in (OURS, *VECTORS)}
            report(options, f"python: {ENVS} x CartPole, 1 core", "steps/s", contenders)
