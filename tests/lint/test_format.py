# SPDX-License-Identifier: Apache-2.0
"""test_format.py [ROOT]: every C and JavaScript file is as clang-format writes it. Other versions than the one
the tree is formatted with disagree with it in places, so they are no check."""

import re
import shutil
import subprocess

import tree

VERSION = 14


def main(root):
    program = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    if not program:
        tree.skip("no clang-format here")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if not re.search(rf"version {VERSION}\.", version):
        tree.skip(f"the tree is formatted with clang-format {VERSION}, this is {version.strip()}")
    paths = tree.files(root, ".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".js")
    done = subprocess.run([program, "--dry-run", "-Werror", *paths], cwd=root, text=True,
                          capture_output=True)
    tree.report([line for line in done.stderr.splitlines() if ": error: " in line], paths)


if __name__ == "__main__":
    main(tree.root())
