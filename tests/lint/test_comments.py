# SPDX-License-Identifier: Apache-2.0
"""test_comments.py [ROOT]: every public function has a comment. Functions that stand together without an empty
line between them may share one; a comment behind a declaration counts as well."""

import re

import tree

FUNCTION = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z][\w\s*]*?\b(hd_\w+)\s*\([^*]")


def blocks(text):
    """(line number, lines) of the stretches between empty lines, bodies of structs left out."""
    kept, depth, start = [], 0, 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if not line.strip() and depth == 0:
            if kept:
                yield start, kept
            kept = []
            continue
        if not kept:
            start = number
        kept.append(line if depth == 0 else "")
        depth += line.count("{") - line.count("}")


def violations_in(path, text):
    for start, lines in blocks(text):
        commented = False
        for offset, line in enumerate(lines):
            commented = commented or "/*" in line
            function = FUNCTION.match(line)
            if function and not commented:
                yield f"{path}:{start + offset}: {function[1]} has no comment"


def main(root):
    paths = [path for path in tree.files(root, ".h") if not path.startswith("tests/")]
    tree.report([line for path in paths for line in violations_in(path, tree.read(root, path))],
                paths)


if __name__ == "__main__":
    main(tree.root())
