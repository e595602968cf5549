# SPDX-License-Identifier: Apache-2.0
"""test_docs.py [ROOT]: what documents quote and name is there: C in docs/howto is an excerpt, line by line, of an
example that tests build; links lead to files and headings; paths in backticks exist; whatever names a section of docs/di-engine.md names
one that is there; and CITATION.cff has the version of CMakeLists.txt and its date in CHANGELOG.md."""

import os
import re

import tree

EXAMPLES = ("tasks/types/base/outputs.c", "tests/howto/", "tests/infer/installed/", "kernels/envs/example/", "kernels/learn/losses/",
            "tasks/learn/losses/", "kernels/net/layers/layer_norm.c", "kernels/net/gpu/layer_norm.cu")
BLOCK = re.compile(r"^```c\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"`((?:kernels|runtime|tasks|graph|runner|infer|python|configs|tests|bench|docs|scripts)/[\w./*-]*)")
HEADING = re.compile(r"^#+ (.*)$", re.M)
SECTION = re.compile(r"docs/di-engine\.md,? (?:section )?(\d+(?:\.\d+)?)")
NUMBER = re.compile(r"^#+ (\d+(?:\.\d+)?) ", re.M)
SEMANTICS = "docs/di-engine.md"
# What documents name by a folder, though it is made, by a build or by a run.
SPARED = "CHANGELOG.md"
CITATION = "CITATION.cff"


def anchors(text):
    """GitHub's names of the headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def excerpt_violations(path, text, examples):
    for block in BLOCK.finditer(text):
        if not any("\n" + block[1] in "\n" + example for example in examples):
            line = text.count("\n", 0, block.start()) + 1
            yield f"{path}:{line}: no example has these lines"


def link_violations(root, path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for target, anchor in LINK.findall(line):
            found = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if not os.path.exists(os.path.join(root, found)):
                yield f"{path}:{number}: there is no {target}"
            elif anchor and anchor not in anchors(tree.read(root, found)):
                yield f"{path}:{number}: {found} has no heading {anchor}"


def name_violations(root, path, text, paths):
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAMED.findall(line):
            name = name.rstrip(".")
            there = any(re.match(re.escape(name).replace(r"\*", "[^/]*"), known) for known in paths)
            end = line[line.index(name) + len(name):][:1]
            if not there and end != "<":
                yield f"{path}:{number}: there is no {name}"


def section_violations(root, paths):
    sections = set(NUMBER.findall(tree.read(root, SEMANTICS))) if SEMANTICS in paths else set()
    for path in paths:
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            for section in SECTION.findall(line):
                if section not in sections:
                    yield f"{path}:{number}: {SEMANTICS} has no section {section}"


def citation_violations(root, paths):
    """CITATION.cff has what its format demands, and tells of the last version."""
    if CITATION not in paths:
        return
    text = tree.read(root, CITATION)
    fields = dict(re.findall(r"^([a-z-]+): *(.*)$", text, re.M))
    for field in ("cff-version", "message", "title", "authors", "license"):
        if field not in fields:
            yield f"{CITATION}:1: no {field}"
    version = re.search(r"project\(heddle VERSION ([\d.]+)", tree.read(root, "CMakeLists.txt"))[1]
    released = re.search(rf"^## \[{re.escape(version)}\] - (\S+)$", tree.read(root, "CHANGELOG.md"), re.M)
    for field, expected in (("version", version), ("date-released", released and released[1])):
        if fields.get(field) != expected:
            yield f"{CITATION}:1: {field} is not {expected}"


def main(root):
    paths = tree.files(root)
    examples = [tree.read(root, path) for path in paths if path.startswith(EXAMPLES)]
    documents = [path for path in paths if path.endswith(".md") and not path.startswith("bench/results/")]
    found = list(section_violations(root, tree.files(root, ".c", ".h", ".cu", ".cuh", ".py", ".yaml", ".md")))
    found += citation_violations(root, paths)
    for path in documents:
        text = tree.read(root, path)
        found += link_violations(root, path, text)
        if path.startswith("docs/howto/"):
            found += excerpt_violations(path, text, examples)
        if path != SPARED:
            found += name_violations(root, path, text, paths)
    tree.report(found, documents)


if __name__ == "__main__":
    main(tree.root())
