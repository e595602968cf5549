#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel of the Python package: it builds by pip, and in an environment that has nothing of the project, it loads a
policy, acts, and gives gymnasium its environments. With the program in its place, which is that of this build here, it
trains by a copied run file. tests/long/test_fresh_wheel.py tests the wheel that scripts/wheel makes."""

import glob
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, check, result, sets, skip, train  # noqa: E402

try:
    import gymnasium  # noqa: F401
    import numpy  # noqa: F401
    import scikit_build_core  # noqa: F401
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")
for tool in ("cmake", "ninja"):
    if not shutil.which(tool):
        skip(f"there is no {tool} to build with")

USE = """
import sys, gymnasium, heddle
assert not heddle.__file__.startswith(sys.argv[2]), heddle.__file__
policy = heddle.load(sys.argv[1])
env = gymnasium.make("heddle/CartPole-v0")
obs, _ = env.reset(seed=0)
total, done = 0, False
while not done:
    obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
    total, done = total + reward, terminated or truncated
print(heddle.__version__, total)
"""


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def build(folder):
    """Without isolation, so that nothing is fetched."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir",
        folder, f"--config-settings=build-dir={folder}/build", os.path.join(ROOT, "python"))
    wheel, = glob.glob(os.path.join(folder, "*.whl"))
    check(os.path.basename(wheel).split("-")[2:4] == ["py3", "none"], f"{wheel} is for one version of Python")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    check({"heddle/libheddle-infer.so", "heddle/py.typed", "heddle/LICENSE"} <= names, f"the wheel has {names}")
    return wheel


def make_environment(folder, wheel):
    """Numpy and gymnasium are those of this environment."""
    run(sys.executable, "-m", "venv", folder)
    python = os.path.join(folder, "bin/python")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    with open(os.path.join(site, "more.pth"), "w", encoding="utf-8") as file:
        file.write(sysconfig.get_path("purelib") + "\n")
    return python


def check_program(scratch, python, env):
    """The wheel of scripts/wheel has the same files of the program below this folder."""
    package = run(python, "-c", "import heddle; print(heddle.__path__[0])", env=env, cwd=scratch.path).strip()
    run("cmake", "--install", os.path.dirname(RUNNER), "--prefix", os.path.join(package, "_program"))
    shutil.copy(os.path.join(package, "_program/share/heddle/configs/cartpole_dqn_ddp.yaml"), scratch("mine.yaml"))
    run(os.path.join(os.path.dirname(python), "heddle"), "run", "mine.yaml", "--dir", "mine", *sets(max_train_iter=5), env=env,
        cwd=scratch.path)
    check(result(scratch("mine"))["train_iter"] == 5, "the program in the package did not make five updates")


def check_script():
    """What can be told without the build, which takes minutes."""
    script = os.path.join(ROOT, "scripts/wheel")
    check("build/wheel/" in run(script, "--help"), "scripts/wheel --help does not say where")
    said = subprocess.run([script, "--isa"], text=True, capture_output=True)
    check(said.returncode == 2 and "usage: scripts/wheel" in said.stderr, f"scripts/wheel --isa: {said}")


def main():
    check_script()
    with Scratch() as scratch:
        directory = scratch("run")
        train(directory, world__shards=1, max_train_iter=80, env__stop_value="1e9")
        python = make_environment(scratch("venv"), build(scratch("wheel")))
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HEDDLE_INFER_LIBRARY")}
        said = run(python, "-W", "ignore", "-c", USE, directory, ROOT, env=env, cwd=scratch.path).split()
        check(float(said[1]) >= 8, f"an episode of CartPole returned {said[1]}")
        check_program(scratch, python, env)


main()
