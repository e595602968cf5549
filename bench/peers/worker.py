# SPDX-License-Identifier: Apache-2.0
"""A process that stays warm between turns: reads a line of JSON, does what it says, answers with one.

A worker's program calls serve(); its master makes a Worker."""

import json
import os
import subprocess
import sys
import tempfile

from turns import Missing, pinned


def serve(answer):
    """answer(request) -> something that JSON knows, for every line of stdin."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints does so on stderr
    for line in sys.stdin:
        out.write(json.dumps(answer(json.loads(line))) + "\n")
        out.flush()


# The C library keeps freed memory instead of asking the system for it again and again, which costs PyTorch up
# to half of its time: what its tuning guide wants of another malloc.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**33),
               "MALLOC_TOP_PAD_": str(2**28)}


class Worker:
    """Runs a program of this folder on the given cores."""

    def __init__(self, cores, program, *arguments, env=None):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            pinned(cores, sys.executable, path, *arguments), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.said, text=True,
            env={**os.environ, **KEEP_MEMORY, "OMP_NUM_THREADS": str(len(cores)),
                 "TORCHINDUCTOR_CACHE_DIR": os.path.join(sys.prefix, "inductor"), **(env or {})})

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            raise Missing(f"its process ended with code {self.process.wait()}: "
                          f"{(self.said.read().splitlines() or ['silence'])[-1]}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
