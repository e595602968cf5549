# SPDX-License-Identifier: Apache-2.0
"""What every saved result says of where it was measured."""

import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        name = re.search(r"model name\s*: (.*)", file.read()).group(1)
    return f"{name}, {os.cpu_count()} CPUs"


def commit():
    words = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(words, cwd=ROOT, text=True, capture_output=True, check=False).stdout.strip()
