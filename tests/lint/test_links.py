# SPDX-License-Identifier: Apache-2.0
"""test_links.py [FOLDER OF OBJECTS]: no two modules of the libraries call each other, directly or round a
circle. Modules are those of rooms.py; calls are the symbols that their objects define and need."""

import collections
import glob
import os
import subprocess
import sys

import test_rooms
import tree

LIBRARIES = ("hd_base", "hd_kernels", "hd_runtime", "hd_tasks", "hd_graph", "hd_runner")


def symbols(path):
    """What an object defines and what it needs of others."""
    listed = subprocess.run(["nm", "-g", "--format=posix", path], capture_output=True, text=True, check=True)
    defined, needed = set(), set()
    for line in listed.stdout.splitlines():
        name, kind = line.split()[:2]
        (needed if kind in "Uw" else defined).add(name)
    return defined, needed


def main(folder):
    objects = {}
    for library in LIBRARIES:
        top = os.path.join(folder, f"{library}.dir")
        for path in glob.glob(f"{top}/**/*.c.o", recursive=True):
            source = os.path.relpath(path, top)[:-2]
            if os.path.exists(os.path.join(tree.ROOT, source)):  # else an object of a file that is no more
                objects[source] = symbols(path)
    home = {name: test_rooms.module_of(path) for path, (defined, _) in objects.items() for name in defined}
    edges = collections.defaultdict(set)
    for path, (_, needed) in objects.items():
        module = test_rooms.module_of(path)
        edges[module] |= {home[name] for name in needed if name in home} - {module}
    found = []
    for members in test_rooms.circles(edges):
        calls = sorted(f"{a} -> {b}" for a in members for b in edges[a] if b in members)
        found.append(f"{members[0]}:1: modules that call each other: {'; '.join(calls)}")
    tree.report(found, objects)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(tree.BUILD, "CMakeFiles"))
