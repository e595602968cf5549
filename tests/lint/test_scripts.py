# SPDX-License-Identifier: Apache-2.0
"""test_scripts.py [ROOT]: shell scripts parse, and shellcheck (where it is installed) finds nothing; Python
files compile."""

import os
import shutil
import subprocess

import tree


def shell_violations(root, path):
    commands = [["bash", "-n"]]
    if shutil.which("shellcheck"):
        commands.append(["shellcheck", "-f", "gcc"])
    for command in commands:
        done = subprocess.run([*command, path], cwd=root, capture_output=True, text=True)
        if done.returncode != 0:
            yield (done.stdout + done.stderr).strip()
    text = tree.read(root, path)
    if "set -euo pipefail" not in text:
        yield f"{path}:1: no 'set -euo pipefail'"
    if not os.access(os.path.join(root, path), os.X_OK):
        yield f"{path}:1: not executable"


def python_violations(root, path):
    try:
        compile(tree.read(root, path), path, "exec")
    except SyntaxError as error:
        yield f"{path}:{error.lineno}: {error.msg}"


def main(root):
    found, checked = [], []
    for path in tree.files(root):
        head = tree.read(root, path).partition("\n")[0] if "." not in path[1:] else ""
        if path.endswith(".sh") or head.startswith("#!") and head.endswith("bash"):
            found += shell_violations(root, path)
        elif path.endswith(".py") or head.startswith("#!") and "python" in head:
            found += python_violations(root, path)
        else:
            continue
        checked.append(path)
    tree.report(found, checked)


if __name__ == "__main__":
    main(tree.root())
