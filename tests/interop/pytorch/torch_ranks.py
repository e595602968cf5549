# SPDX-License-Identifier: Apache-2.0
"""Programs that run under PyTorch, as ranks of a gloo group: by the first Python that has it, usually Debian's."""

import json
import os
import socket
import subprocess
import sys

CANDIDATES = [sys.executable, "/usr/bin/python3", "python3"]
HERE = os.path.dirname(os.path.abspath(__file__))


def find_python():
    """A Python with PyTorch and gloo, or None."""
    for python in CANDIDATES:
        try:
            done = subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                                  capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return python
    return None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_ranks(python, script, ranks, argument):
    """Starts `script` of this folder `ranks` times, with RANK and the like and `argument` as JSON on standard input;
    returns what each rank printed, read as JSON."""
    env = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
               OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    processes = [subprocess.Popen([python, os.path.join(HERE, script)], env=dict(env, RANK=str(rank)), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in range(ranks)]
    for process in processes:
        process.stdin.write(json.dumps(argument))
        process.stdin.close()
    printed = [process.stdout.read() for process in processes]
    codes = [process.wait(timeout=120) for process in processes]
    if any(codes):
        sys.exit(f"failed: {script} ended with exit codes {codes}")
    return [json.loads(text) for text in printed]
