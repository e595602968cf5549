# SPDX-License-Identifier: Apache-2.0
"""Starting runs to be disturbed, and looking at what they leave."""

import contextlib
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, PATIENCE, ROOT, RUNNER, check, check_no_orphans, environment, free_port, sets  # noqa: E402

ENDLESS = sets(env__stop_value="1e9", max_train_iter=10**12)
PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")


def disturbed(number):
    """The config and options of run number `number`: DQN, or PPO that collects in many small tasks."""
    if number % 2 == 0:
        return [CONFIG]
    return [PPO, *sets(policy__collect__env_groups=2, policy__collect__overlap_act_step="true")]


def start(*command, env=None, cwd=None, ignored=None, prefix=()):
    """Starts `runner` in a process group of its own, as a shell would; it ignores a signal, as under nohup."""
    return subprocess.Popen([*prefix, RUNNER, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=env or environment(), cwd=cwd, start_new_session=True,
                            preexec_fn=ignored and (lambda: signal.signal(ignored, signal.SIG_IGN)))


def start_endless(directory, *options, ranks=2, number=0, ignored=None):
    command = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
    return start(*command, *disturbed(number), "--dir", directory, "--quiet", *ENDLESS, *options, ignored=ignored)


def build_library(path, text):
    """A library to be preloaded."""
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", path, "-ldl"], input=text, text=True, check=True)
    return path


def wait_for_training(run, directory):
    while not os.path.exists(os.path.join(directory, "log/evaluator")):
        check(run.poll() is None, "the run has ended")
        time.sleep(0.01)


def children(process):
    """Also of its other threads."""
    found, tasks = [], f"/proc/{process.pid}/task"
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    return found


def rank_of(pid):
    """The rank of a process that was forked already, and perhaps not yet turned into `runner run`."""
    while True:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = re.search(rb"(?:^|\0)RANK=(\d+)\0", file.read())
        if found:
            return int(found.group(1))
        time.sleep(0.0005)


def wait_for_ranks(process, directory, ranks=2):
    """The process ids by rank, once training is under way."""
    end = time.monotonic() + 10 * PATIENCE
    while time.monotonic() < end:
        pids = children(process)
        if len(pids) == ranks and os.path.exists(os.path.join(directory, "log/evaluator")):
            return {rank_of(pid): pid for pid in pids}
        time.sleep(0.01)
    sys.exit("the ranks did not start")


def end(process, seconds):
    """The usual end takes so many seconds: (exit code, stderr, seconds it took). A signal counts as 128 + number."""
    begin = time.monotonic()
    seconds *= PATIENCE
    try:
        _, text = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        sys.exit(f"not ended after {seconds} s: {process.args}")
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return code, text, time.monotonic() - begin


def wait_for_text(process, *patterns, seconds=5):
    """Reads stderr until it matches all patterns; returns what was read, which end() does not return again."""
    text, until = "", time.monotonic() + seconds * PATIENCE
    while not all(re.search(pattern, text) for pattern in patterns):
        ready, _, _ = select.select([process.stderr], [], [], max(0, until - time.monotonic()))
        data = os.read(process.stderr.fileno(), 65536) if ready else b""
        check(data, f"nothing matched {patterns}: {text}")
        text += data.decode()
    return text


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check_whole(path):
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".json"):
        json.loads(data)
    elif path.endswith(".safetensors"):
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        ends = [t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"]
        check(len(data) == 8 + length + max(ends), f"{path} is cut short")
    elif path.endswith(".yaml"):
        check(data.endswith(b"\n") and b"replay_buffer_size" in data, f"{path} is cut short")


def check_left(directory, pids):
    """No process, no shared memory, no half-written file."""
    check(not [pid for pid in pids if is_running(pid)], "a process is left")
    check_no_orphans()
    for at, _, names in os.walk(directory):
        for name in names:
            check(not name.endswith(".tmp"), f"{at}/{name} is left")
            check_whole(os.path.join(at, name))


def errors(text):
    return [line for line in text.splitlines() if re.search(r"\berror: ", line)]
