# SPDX-License-Identifier: Apache-2.0
"""test_times.py [ROOT]: tests/times.txt, from which CMake chooses the quick tests, has the time of each test of the
build, and of no others."""

import json
import re
import subprocess

import tree

TIMES = "tests/times.txt"
UNTIMED = {"long", "fuzz", "races"}
OF_CUDA = re.compile("^(gpu|emulated)/")  # absent where there is no CUDA toolkit


def list_tests():
    listed = subprocess.run(["ctest", "--test-dir", tree.BUILD, "--show-only=json-v1"], capture_output=True, text=True,
                            check=True).stdout
    for test in json.loads(listed)["tests"]:
        labels = next((field["value"] for field in test["properties"] if field["name"] == "LABELS"), [])
        if not UNTIMED & set(labels):
            yield test["name"]


def main(root):
    times = {name: number for number, line in enumerate(tree.read(root, TIMES).splitlines(), 1)
             if not line.startswith("#") for name in [line.split()[1]]}
    tests = set(list_tests())
    found = [f"{TIMES}:1: no time of {name}: add a line, or measure all with scripts/test --times"
             for name in sorted(tests - set(times))]
    found += [f"{TIMES}:{times[name]}: there is no test {name}" for name in sorted(set(times) - tests)
              if not OF_CUDA.match(name) or any(map(OF_CUDA.match, tests))]
    tree.report(found, times)


if __name__ == "__main__":
    main(tree.root())
