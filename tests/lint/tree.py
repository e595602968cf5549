# SPDX-License-Identifier: Apache-2.0
"""The files of a source tree, and how a check reports. Every check takes the root of a tree (default:
this one), prints one line per violation and ends with exit code 1 when there was any."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ.get("HD_RUNNER", os.path.join(ROOT, "build/runner")))


def root():
    return sys.argv[1] if len(sys.argv) > 1 else ROOT


def files(top, *suffixes):
    """Paths below the root, sorted: what git tracks, or everything where git knows nothing."""
    listed = subprocess.run(["git", "-C", top, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        paths = listed.stdout.split("\0")
    else:
        paths = [os.path.relpath(os.path.join(folder, name), top)
                 for folder, _, names in os.walk(top) for name in names]
        paths = [path for path in paths if not path.startswith((".git/", "build"))]
    return sorted(path for path in paths if path.endswith(suffixes or ("",)) and
                  os.path.isfile(os.path.join(top, path)))


def read(top, path):
    with open(os.path.join(top, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def report(violations, checked):
    """Ends the check. A check that looked at nothing has checked nothing, so it fails as well."""
    for line in violations:
        print(line)
    if not checked:
        print("nothing to check")
    print(f"{len(violations)} violations")
    sys.exit(1 if violations or not checked else 0)


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)
