#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that come and go, by torchrun of Debian's PyTorch 1.13 and of a present one: a node joins, leaves by SIGTERM,
comes back and is killed, and one too many waits. The run goes on each time and ends in the bits of one that nobody
touched. Each node is an agent of torchrun on this host."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fault"))
from processes import children  # noqa: E402
from runner import CONFIG, RUNNER, SECRET, Scratch, check, environment, free_port, result, sets, skip, train  # noqa: E402
from test_torchrun import DEBIAN, PRESENT  # noqa: E402

KEYS = dict(world__shards=2, env__stop_value="1e9", runtime__checkpoint_interval_s=0.1)
ENDLESS, MORE = 10 ** 9, 200  # updates
MOST = 2  # nodes
# Without the last one PyTorch 2.15 tells a node that joins later no MASTER_ADDR, and all wait.
ENV = environment(HEDDLE_SECRET=SECRET, OMP_NUM_THREADS=1, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)


class Job:
    """A run whose nodes are agents; the first one keeps the store, and stays."""

    def __init__(self, launcher, directory):
        self.launcher, self.directory, self.port, self.agents = launcher, directory, free_port(), []

    def start(self, updates=ENDLESS):
        host = not self.agents
        command = [*self.launcher, f"--nnodes=1:{MOST}", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_id=run",
                   f"--rdzv_endpoint=127.0.0.1:{self.port}", "--max_restarts=100", "--monitor_interval=0.2",
                   f"--rdzv_conf=is_host={int(host)},last_call_timeout=1,join_timeout=120", "--no_python", RUNNER, "run",
                   CONFIG, "--dir", self.directory, "--resume", *sets(max_train_iter=updates, **KEYS)]
        log = open(f"{self.directory}.log", "a", encoding="utf-8")
        agent = subprocess.Popen(command, env=ENV, text=True,
                                 stdout=log, stderr=subprocess.STDOUT)
        self.agents.append(agent)
        return agent

    def said(self):
        with open(f"{self.directory}.log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, what, condition):
        """An end of the first agent is the end of the job."""
        until = time.monotonic() + 180
        while not condition():
            check(self.agents[0].poll() is None, f"{what}: torchrun has ended: {self.said()[-4000:]}")
            check(time.monotonic() < until, f"{what}: not within 180 s: {self.said()[-4000:]}")
            time.sleep(0.02)
        print(what, flush=True)

    def wait_for_ranks(self, n, what):
        """That n ranks train, and have written a checkpoint since."""
        def train():
            return [world_size(pid) for agent in self.agents if agent.poll() is None for pid in children(agent)] == [n] * n
        self.wait_for(what, train)
        before = self.latest()
        self.wait_for(f"{what}: a checkpoint", lambda: self.latest() != before and train())

    def latest(self):
        try:
            return os.readlink(os.path.join(self.directory, "ckpt/state/latest"))
        except OSError:
            return None

    def finish(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.terminate()
                agent.wait(timeout=60)


def world_size(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(word.partition(b"=")[::2] for word in file.read().split(b"\0"))
        return int(variables.get(b"WORLD_SIZE", 0))
    except OSError:
        return 0


def check_nodes(name, launcher, scratch):
    job = Job(launcher, scratch(name))
    try:
        job.start()
        job.wait_for_ranks(1, f"{name}: one node")
        second = job.start()
        job.wait_for_ranks(2, f"{name}: another joins")
        second.terminate()
        job.wait_for_ranks(1, f"{name}: it leaves by SIGTERM")
        third = job.start()
        job.wait_for_ranks(2, f"{name}: it comes back")
        job.start()
        job.wait_for_ranks(2, f"{name}: one too many")
        job.agents[-1].kill()
        for pid in [*children(third), third.pid]:
            os.kill(pid, signal.SIGKILL)
        job.wait_for_ranks(1, f"{name}: a node is killed")
    finally:
        job.finish()
    updates = result(job.directory)["train_iter"] + MORE
    found = train(job.directory, "--resume", **{**KEYS, "max_train_iter": updates})["param_hash"]
    expected = train(scratch(f"{name} alone"), **{**KEYS, "max_train_iter": updates})["param_hash"]
    check(found == expected, f"{name}: {found}, not {expected} after {updates} updates")
    print(f"{name}: {updates} updates end in {found}")


def main():
    launchers = {"1.13": DEBIAN, "2.15": [os.path.join(PRESENT, "torchrun")]}
    missing = [name for name, launcher in launchers.items() if not os.path.exists(launcher[0])]
    if missing:
        skip(f"there is no torchrun {missing[0]}: scripts/torch, scripts/packages tests/interop/packages.txt")
    # Both wait most of the time.
    with Scratch() as scratch, concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(check_nodes, name, launcher, scratch) for name, launcher in launchers.items()]:
            done.result()


main()
