# SPDX-License-Identifier: Apache-2.0
"""test_contracts.py [ROOT]: comments say who does what, and headers say what a caller must know.

- A comment does not begin as a fragment of a sentence ("Of the ...", "What ...", "The same ...").
- The comment of a public function that returns a status says which errors there are, or those of what.
- A header with functions says which threads may call them."""

import re

import tree

CODE = (".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".js")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
FRAGMENT = re.compile(r"(Of|The same|What|Whether|Where|That of|Those of|As|Likewise|How|Which|For|By|From|To|With|In)\b")
NUMBER = re.compile(r"_(count|find|get|draw|add|compare|read)_")  # functions whose int is no status
FUNCTION = re.compile(r"^(?:HEDDLE_API )?(?!static\b|typedef\b|#|\s)([A-Za-z][\w\s*]*?)\b((?:hd|heddle)_\w+)\s*\([^*]")
ERRORS = re.compile(r"HD_ERR|HD_OK|HD_AGAIN|\berrors?\b|\bErrors\b|\bstatus\b|\bfails?\b|\bcannot fail\b")
THREADS = re.compile(r"\bthreads?\b", re.I)


def blocks(text):
    """(line, comment above, lines) of each stretch without an empty line, outside of struct bodies."""
    kept, depth, start = [], 0, 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if not line.strip() and depth == 0:
            if kept:
                yield start, kept
            kept = []
            continue
        start = start if kept else number
        kept.append(line if depth == 0 else "")
        depth += line.count("{") - line.count("}")


def fragments(path, text):
    for match in COMMENT.finditer(text):
        said = " ".join(part.strip(" *\t") for part in match[1].splitlines()).strip()
        line_start = text.rfind("\n", 0, match.start()) + 1
        beside = text[line_start:match.start()].strip()  # behind a declaration a few words do
        if not beside and FRAGMENT.match(said) and not re.match(r"(In|For|To|With|By|From|Where|As)\b[^.;:]*, ", said):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: begins as a fragment: {said[:60]}"


def without_errors(path, text):
    for start, lines in blocks(text):
        said = " ".join(COMMENT.findall("\n".join(lines)))
        for offset, line in enumerate(lines):
            function = FUNCTION.match(line)
            if function and function[1].split() == ["int"] and not NUMBER.search(function[2]) and not ERRORS.search(said):
                yield f"{path}:{start + offset}: {function[2]} does not say which errors it returns"


def without_threads(path, text):
    if any(FUNCTION.match(line) for line in text.splitlines()) and not THREADS.search(" ".join(COMMENT.findall(text))):
        yield f"{path}:1: says nothing of threads"


def main(root):
    found = []
    paths = [path for path in tree.files(root, *CODE) if path.startswith(tree.PRODUCT)]
    for path in paths:
        text = tree.read(root, path)
        found += fragments(path, text)
        if path.endswith(".h"):
            found += [*without_errors(path, text), *without_threads(path, text)]
    tree.report(found, paths)


if __name__ == "__main__":
    main(tree.root())
