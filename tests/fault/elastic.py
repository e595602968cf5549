# SPDX-License-Identifier: Apache-2.0
"""Jobs whose nodes come and go: launchers on this host or in network namespaces, and how their runs end."""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import CONFIG, RUNNER, SLOWDOWN, check, environment, fit, free_port, sets  # noqa: E402
from runner import SECRET, result, train  # noqa: E402

STOPPED = 75
KEYS = dict(world__shards=4, env__stop_value="1e9", runtime__transport="ucx", runtime__checkpoint_interval_s=0.3,
            runtime__heartbeat_timeout_s=min(2 * SLOWDOWN, 6))


class Launcher:
    """`runner launch` of one node; what it says goes to a file, so that nobody has to read while it runs."""

    def __init__(self, command, env, path, prefix=()):
        with open(path, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen([*prefix, RUNNER, *fit(command)], env=env, stdout=file, stderr=file,
                                            start_new_session=True)
        self.path = path

    def said(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, text, times=1, seconds=30):
        """Waits until it has said so, that often."""
        limit = time.monotonic() + seconds * SLOWDOWN
        while self.said().count(text) < times:
            check(time.monotonic() < limit, f"nobody says {times} times '{text}': {self.said()}")
            check(self.process.poll() is None or self.said().count(text) >= times,
                  f"ended before '{text}': {self.said()}")
            time.sleep(0.02)

    def send(self, number):
        self.process.send_signal(number)

    def end(self, expected, seconds=60):
        """Waits for its end; returns what it said."""
        try:
            code = self.process.wait(seconds * SLOWDOWN)
        except subprocess.TimeoutExpired:
            sys.exit(f"failed: not ended after {seconds} s: {self.said()}")
        check(code == expected, f"exit code {code}, not {expected}: {self.said()}")
        return self.said()

    def ranks(self):
        """The ranks that run, without the coordinator beside them."""
        found = []
        for pid in children(self.process.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read().split(b"\0")[1:2] == [b"run"]:
                        found.append(pid)
            except OSError:
                pass
        return found


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class Job:
    """Launchers that share a run directory and a port. Whatever is left of them is killed at the end."""

    def __init__(self, scratch, name, nnodes="1:2", address="127.0.0.1", updates=10**12, nodes=None, **keys):
        self.scratch, self.name, self.directory = scratch, name, scratch(name)
        self.address, self.port, self.nodes = address, free_port(), nodes
        self.options = ["--nnodes", nnodes, "--nproc-per-node", "2"]
        self.keys = dict(KEYS, **keys)
        self.updates, self.launchers = updates, []

    def start(self, *options, node=0, timeout_s=12, resume=False, secret=SECRET):
        """A launcher more, in a namespace where the job has some."""
        command = ["launch", *self.options, "--master-addr", self.address, "--master-port", str(self.port), CONFIG,
                   "--dir", self.directory, *sets(**self.keys, max_train_iter=self.updates), *options,
                   *(["--resume"] if resume else [])]
        env = environment(HEDDLE_SECRET=secret, HD_RENDEZVOUS_TIMEOUT_S=timeout_s)
        path = self.scratch(f"{self.name}.{len(self.launchers)}.txt")
        self.launchers.append(Launcher(command, env, path, self.nodes.inside(node) if self.nodes else ()))
        return self.launchers[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for launcher in self.launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
                launcher.process.wait()

    def wait_for_training(self, seconds=30):
        """Waits until another checkpoint has been written."""
        latest, limit = os.path.join(self.directory, "ckpt/state/latest"), time.monotonic() + seconds * SLOWDOWN
        before = os.readlink(latest) if os.path.lexists(latest) else ""
        while not os.path.lexists(latest) or os.readlink(latest) == before:
            check(time.monotonic() < limit, f"no checkpoint: {self.launchers[0].said()}")
            time.sleep(0.02)

    def count_updates(self):
        """The updates up to the newest checkpoint."""
        with open(os.path.join(self.directory, "ckpt/state/latest/manifest.json"), encoding="utf-8") as file:
            return json.load(file)["metadata"]["executor"]["counters"]["update"]

    def finish(self, nodes=(0, 0), more=200):
        """Launchers go on from the newest checkpoint to some updates more, and all end; then the parameters are those
        of a run that nobody touched."""
        self.updates = self.count_updates() + more
        ends = [self.start("--quiet", node=node, resume=True) for node in nodes]
        for launcher in ends:
            launcher.end(0, 120)
        keys = dict(self.keys, max_train_iter=self.updates, runtime__transport="auto")
        reference = train(self.scratch(self.name + ".whole"), **keys)["param_hash"]
        found = result(self.directory)["param_hash"]
        check(found == reference, f"{self.name}: {found}, not {reference}")
        return self.updates

    def stop(self):
        """The launcher of the master's node is told to end, which ends the job with a checkpoint."""
        self.launchers[0].send(signal.SIGTERM)
        return self.launchers[0].end(STOPPED)
