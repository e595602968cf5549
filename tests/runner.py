# SPDX-License-Identifier: Apache-2.0
"""What the tests of the program `runner` share."""

import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml")
SLOWDOWN = float(os.environ.get("HD_SLOWDOWN", "1"))  # of the program, by sanitizers
TIMEOUT = 900 * SLOWDOWN  # of a call, in seconds; the guard of a test may end it earlier
PATIENCE = 10 * SLOWDOWN  # how many times its usual need a promise is given, since machines are shared
SECRET = "a secret that only this test's ranks know"
RUNNER = os.environ.get("HD_RUNNER", os.path.join(ROOT, "build/runner"))


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def find_emulated():
    """The program that is linked with the emulated GPU, where there is one whose StarPU knows GPUs."""
    program = os.environ.get("HD_RUNNER_EMULATED", "")
    if not os.path.exists(program):
        skip("there is no CUDA toolkit, so nothing of the emulation was built")
    with Scratch() as scratch:
        command = ["run", CONFIG, "--dir", scratch("probe"), "--quiet", *sets(max_train_iter=1, policy__cuda="true")]
        done = subprocess.run([program, *command], env=environment(), text=True, capture_output=True, timeout=TIMEOUT)
    if "StarPU without it" in done.stderr:
        skip("this StarPU knows no GPUs (scripts/setup --cuda builds one that does)")
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}: {done.stdout}{done.stderr}")
    return program


def environment(**more):
    """The environment without anything that would make this process a rank."""
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {k: v for k, v in os.environ.items()
            if k not in ranks and not k.startswith(("STARPU_", "OMPI_COMM_WORLD_", "SLURM_", "HEDDLE_SECRET"))}
    kept.update({k: str(v) for k, v in more.items()})
    return kept


class Scratch:
    """A private directory, removed afterwards."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="heddle-test-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __call__(self, name):
        return os.path.join(self.path, name)


@functools.lru_cache
def draw_seed():
    """What tests draw from: HD_FAULT_SEED, else the commit, so that one commit has one result and the next one another
    share."""
    given = os.environ.get("HD_FAULT_SEED")
    if not given:
        asked = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], text=True, capture_output=True)
        given = int(asked.stdout.strip() or "1", 16)
    print(f"HD_FAULT_SEED={given}")
    return int(given)


def reduce(n):
    """How many of n random moments a commit tries: a third, all with HD_WHOLE=1."""
    return n if os.environ.get("HD_WHOLE") == "1" else -(-n // 3)


def call(*arguments, env=None, cwd=None, timeout=None, expect=0):
    """Runs `runner`; fails the test when its exit code is another than expected."""
    done = subprocess.run([RUNNER, *arguments], env=env or environment(), cwd=cwd, text=True,
                          capture_output=True, timeout=timeout or TIMEOUT)
    if expect is not None and done.returncode != expect:
        sys.exit(f"runner {' '.join(arguments)}\nexit code {done.returncode}, not {expect}\n"
                 f"{done.stdout}{done.stderr}")
    return done


def sets(**keys):
    """--set options; dots are written as double underscores: runtime__max_inflight_iterations=3."""
    return [word for key, value in keys.items()
            for word in ("--set", f"{key.replace('__', '.')}={value}")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def launch_nodes(nodes, ranks, *arguments, env=None, prefixes=None, address="127.0.0.1", disturb=lambda: None):
    """One `runner launch` for each node, as a user starts them by hand, here all on this host (with emulated GPUs of
    their own). Returns what they said."""
    command = [RUNNER, "launch", "--nproc-per-node", str(ranks // nodes), "--nnodes", str(nodes), "--master-addr",
               address, "--master-port", str(free_port()), *arguments]
    env = dict(env or environment(), HEDDLE_SECRET=SECRET)
    runs = [subprocess.Popen([*prefix, *command, "--node-rank", str(node)], env=dict(env, HD_EMULATED_HOST=str(node)),
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for node, prefix in enumerate(prefixes or [[]] * nodes)]
    disturb()
    said = [run.communicate(timeout=TIMEOUT)[0] for run in runs]
    check(all(run.returncode == 0 for run in runs), "\n".join(said))
    return "".join(said)


def train(directory, *arguments, ranks=1, nodes=1, env=None, config=CONFIG, **keys):
    """Trains and returns result.json."""
    options = [config, "--dir", directory, "--quiet", *sets(**keys), *arguments]
    if nodes > 1:
        launch_nodes(nodes, ranks, *options, env=env)
    else:
        call(*(["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]), *options, env=env)
    return result(directory)


def result(directory):
    with open(os.path.join(directory, "result.json"), encoding="utf-8") as file:
        return json.load(file)


def wait_for_updates(run, directory, updates=1):
    """Until the run, a Popen, has noted that it made so many."""
    path = os.path.join(directory, "log/metrics.jsonl")
    for _ in range(6000):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if any(int(n) >= updates for n in re.findall(r'^{"s".*?"update":(\d+)', file.read(), re.M)):
                    return
        check(run.poll() is None, f"the run ended before update {updates}")
        time.sleep(0.01)
    sys.exit(f"failed: no update {updates} within a minute")


def list_orphans():
    """Shared memory that no living process has open: files of /dev/shm, and System V segments."""
    files = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
    with open("/proc/sysvipc/shm", encoding="ascii") as file:
        orphans = {f"segment {line.split()[1]}" for line in file.readlines()[1:] if line.split()[6] == "0"}
    for process in filter(str.isdigit, os.listdir("/proc")) if files else ():
        try:
            with open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as file:
                text = file.read()
            text += " ".join(os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd"))
        except OSError:
            continue  # it has just ended
        files = {path for path in files if path not in text}
    return files | orphans


ORPHANS = list_orphans()


def write_run(directory, keys, **outcome):
    """Leaves what a run with these keys of its config would, as far as comparisons look at it; without an outcome it has
    not ended."""
    os.makedirs(directory)
    with open(os.path.join(directory, "total_config.yaml"), "w", encoding="utf-8") as file:
        file.writelines(f"{key}: {value}\n" for key, value in keys.items())
    if outcome:
        with open(os.path.join(directory, "result.json"), "w", encoding="utf-8") as file:
            json.dump({"reason": "limit", "best_train_iter": 1, **outcome}, file)


def check_no_orphans():
    """Since this program began nothing was left in shared memory. Others that run make some, and a moment may pass
    until they have it open."""
    until = time.monotonic() + 10
    while (left := list_orphans() - ORPHANS) and time.monotonic() < until:
        time.sleep(0.1)
    check(not left, f"left in shared memory: {left}")


def check(condition, message):
    if not condition:
        sys.exit("failed: " + message)
