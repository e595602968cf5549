#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fresh_wheel.py [RELEASE ...]: the wheel of scripts/wheel in a fresh root of each release of Debian (trixie), with
Python and nothing to develop with, and without a network: root installs it, and another user, who cannot write there and
has no home, trains on one rank and on two, acts, watches, and trains on an environment of Gymnasium. The bits are those
of the build for this processor, if that has the same kernels."""

import glob
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from roots import make_root, run_in  # noqa: E402
from runner import ROOT, RUNNER, Scratch, check, train  # noqa: E402

AS_USER = "cd /trial && exec setpriv --reuid=4711 --regid=4711 --clear-groups env -i HOME=/nonexistent PATH=/venv/bin:/bin"
FEW = {"max_train_iter": 40, "env__stop_value": "1e9", "world__shards": 4}
SETS = " ".join(f"--set {key.replace('__', '.')}={value}" for key, value in FEW.items())
RUNS = "/venv/lib/python3*/site-packages/heddle/_program/share/heddle/configs"
TRAIN = "import heddle; print(heddle.train('ppo', env='cartpole', steps=2000, directory='ppo').result['param_hash'])"
ACT = "import heddle, numpy; print(heddle.load('one').act(numpy.zeros((2, 4), numpy.float32)).shape)"


def make_wheel(folder):
    """With what it depends on for the Python of the root, which has no network; gymnasium is for the user's environments."""
    done = subprocess.run([os.path.join(ROOT, "scripts/wheel")], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0, done.stdout[-6000:])
    print(done.stdout.strip(), flush=True)
    wheel, = glob.glob(os.path.join(ROOT, "build/wheel/*.whl"))
    os.makedirs(folder)
    shutil.copy(wheel, folder)


def get_packages(root, folder):
    python = run_in(root, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
    done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", f"--python-version={python}",
                           "--dest", folder, "numpy", "gymnasium"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0, done.stdout)


def read_hash(root, name):
    with open(f"{root}/trial/{name}/result.json", encoding="utf-8") as file:
        return json.load(file)["param_hash"]


def check_use(root, scratch):
    def run(command):
        return run_in(root, f"{AS_USER} {command}", network=False)

    run(f"sh -c 'cp {RUNS}/cartpole_dqn_ddp.yaml {RUNS}/gym_cartpole_dqn.yaml .'")
    run(f"heddle run cartpole_dqn_ddp.yaml --dir one {SETS}")
    run(f"heddle launch --nproc-per-node 2 cartpole_dqn_ddp.yaml --dir two {SETS}")
    run(f"heddle run gym_cartpole_dqn.yaml --dir gym {SETS}")
    run(f'python3 -c "{TRAIN}"')
    run(f"sh -c 'heddle new game && cd game && heddle check-env run.yaml && heddle run run.yaml --dir run {SETS}'")
    check("(2,)" in run(f'python3 -c "{ACT}"'), "two observations have other than two actions")
    check("▀" in run('script -qec "heddle watch one --episodes 1 --fps 240 --display blocks" /dev/null'), "watch shows no blocks")
    hashes = {name: read_hash(root, name) for name in ("one", "two", "gym")}
    check(len(set(hashes.values())) == 1, f"the parameters of these differ: {hashes}")
    kernels = json.loads(run("sh -c 'heddle doctor --json || true'"))["versions"]["kernels"]
    mine = json.loads(subprocess.run([RUNNER, "doctor", "--json"], text=True, capture_output=True).stdout)["versions"]["kernels"]
    if kernels.split()[-1] == mine.split()[-1]:
        built = train(scratch("built"), **FEW)["param_hash"]
        check(built == hashes["one"], f"{mine} here learns {built}, the wheel {hashes['one']}")
    print(f"kernels {kernels}, here {mine}: {hashes['one']}", flush=True)


def main(releases):
    with Scratch() as scratch:
        make_wheel(scratch("wheel"))
        for release in releases or ["trixie"]:
            root = scratch(release)
            make_root(root, release, "python3", "python3-venv")
            shutil.copytree(scratch("wheel"), f"{root}/wheels")
            get_packages(root, f"{root}/wheels")
            print(f"{release}:", flush=True)
            os.makedirs(f"{root}/trial")
            os.chown(f"{root}/trial", 4711, 4711)
            run_in(root, "python3 -m venv /venv")
            run_in(root, "/venv/bin/pip install -q --no-index --find-links /wheels heddle gymnasium", network=False)
            check_use(root, scratch)


main(sys.argv[1:])
