# SPDX-License-Identifier: Apache-2.0
"""test_text.py [ROOT]: what every tracked file must not contain (paths of somebody's machine, markers of
unfinished work, over-long files) and every source file must (the licence, as an SPDX line)."""

import re

import tree

SOURCES = (".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".py", ".proto", ".js", ".css")
TEXTS = SOURCES + (".md", ".txt", ".yaml", ".yml", ".json", ".ini", ".cmake", ".supp", ".sh")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# What includes ALE's headers is under ALE's licence, and no part of the program.
OF_ALE = re.compile(r"kernels/envs/atari/ale/\w+\.[ch]pp")
LICENCE_OF_ALE = "SPDX-License-Identifier: GPL-2.0-only"
# Spelled in pieces, so that this file obeys its own rules.
MARKER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK|Not" r"Implemented)\b|^(?:<{7}|>{7}) ")
MACHINE = re.compile(r"(?<![\w.$}/-])/(?:ro" r"ot|wo" r"rk|ho" r"me/\w+|Us" r"ers/\w+|opt/\w+|mnt)/")
LONG, TOO_LONG = 600, 800  # lines


def is_text(path):
    name = path.rpartition("/")[2]
    return name.endswith(TEXTS) or "." not in name.lstrip(".")


def line_violations(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if marker := MARKER.search(line):
            yield f"{path}:{number}: marker of unfinished work: {marker[0]}"
        if machine := MACHINE.search(line):
            yield f"{path}:{number}: path of one machine: {machine[0]}"


def file_violations(path, text):
    script = text.startswith("#!")
    licence = LICENCE_OF_ALE if OF_ALE.fullmatch(path) else LICENCE
    if (path.endswith(SOURCES) or script) and licence not in "".join(text.splitlines()[:2]):
        yield f"{path}:1: no line '{licence}'"
    lines = text.count("\n")
    if (path.endswith(SOURCES) or script) and lines > LONG:
        if lines > TOO_LONG:
            yield f"{path}:{lines}: {lines} lines; would two files with better names read easier?"
        else:
            print(f"warning: {path} has {lines} lines")
    if text and not text.endswith("\n"):
        yield f"{path}:{lines + 1}: no newline at the end"


def main(root):
    paths = [path for path in tree.files(root) if is_text(path) and path != "LICENSE"]
    found = []
    for path in paths:
        text = tree.read(root, path)
        found += [*line_violations(path, text), *file_violations(path, text)]
    tree.report(found, paths)


if __name__ == "__main__":
    main(tree.root())
