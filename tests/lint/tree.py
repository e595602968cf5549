# SPDX-License-Identifier: Apache-2.0
"""The files of a source tree, and how a check reports. Every check takes the root of a tree (default:
this one), prints one line per violation and ends with exit code 1 when there was any."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ.get("HD_RUNNER", os.path.join(ROOT, "build/runner")))
PRODUCT = ("runtime/", "kernels/", "tasks/", "graph/", "runner/", "infer/")


def root():
    return sys.argv[1] if len(sys.argv) > 1 else ROOT


def tracked(top):
    """What git tracks; nothing where there is no git or no repository."""
    if not shutil.which("git"):
        return []
    listed = subprocess.run(["git", "-C", top, "ls-files", "-z"], capture_output=True, text=True)
    return listed.stdout.split("\0") if listed.returncode == 0 else []


def found(top):
    """All files but those of builds and of runs."""
    for folder, below, names in os.walk(top):
        if "total_config.yaml" in names:
            below.clear()
            continue
        below[:] = [name for name in below if name != ".git" and not name.startswith("build")]
        yield from (os.path.relpath(os.path.join(folder, name), top) for name in names)


def files(top, *suffixes):
    """Paths of the tree's files with one of these endings (none given: all), sorted."""
    paths = tracked(top) or found(top)
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
