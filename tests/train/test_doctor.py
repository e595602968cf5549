#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doctor: what it finds, as text and as JSON, and that a broken path between ranks is found."""

import json
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import RUNNER, call, check, environment  # noqa: E402


def check_json():
    found = json.loads(call("doctor", "--json", "--ranks", "3").stdout)
    check(set(found) == {"machine", "versions", "python", "gpus", "all_gpus", "ranks", "mean", "advice"}, f"{set(found)}")
    check(found["mean"]["passed"] and found["mean"]["seconds"] > 0, f"{found['mean']}")
    check(len(found["mean"]["sizes"]) == 3 and found["mean"]["latency_s"] > 0, f"{found['mean']}")
    check(all(s["bytes_per_s"] > 0 and s["count"] > 0 for s in found["mean"]["sizes"]), "bandwidth")
    cores = found["machine"]["allowed_cores"]
    check(len(found["ranks"]) == 3 and all(rank["cpus"] for rank in found["ranks"]), "cores of ranks")
    check(any(" ranks share " in a["text"] for a in found["advice"]) == (cores < 3), "more ranks than cores")
    check(set(found["python"]) == {"path", "python", "gymnasium"}, f"{found['python']}")
    check("StarPU" in found["versions"] and "oneDNN" in found["versions"], f"{found['versions']}")


def check_text():
    text = call("doctor", "--ranks", "1", env=environment(OMP_NUM_THREADS=7, STARPU_NCPU=1, RANK=3)).stdout
    for word in ("machine", "latency", "GB/s", "Python for env.type gymnasium", "note: OMP_NUM_THREADS=7", "note: STARPU_NCPU=1", "note: RANK=3"):
        check(word in text, f"doctor does not tell {word}: {text}")


def check_broken():
    def no_memory_to_share():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    broken = subprocess.run([RUNNER, "doctor"], env=environment(), text=True, capture_output=True,
                            preexec_fn=no_memory_to_share, timeout=60)
    check(broken.returncode == 1 and "broken: the self test" in broken.stdout, f"{broken}")


check_json()
check_text()
check_broken()
