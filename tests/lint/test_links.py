# SPDX-License-Identifier: Apache-2.0
"""test_links.py [FOLDER OF OBJECTS]: no two modules of the libraries call each other, directly or round a
circle, nor do two folders. Modules are those of rooms.py; calls are the symbols that their objects define and need."""

import collections
import glob
import os
import subprocess
import sys

import test_rooms
import tree

LIBRARIES = ("hd_base", "hd_kernels", "hd_runtime", "hd_tasks", "hd_graph", "hd_runner")


def symbols(paths):
    """{object: (what it defines, what it needs of others)}"""
    listed = subprocess.run(["nm", "-A", "-g", "--format=posix", *paths], capture_output=True, text=True, check=True)
    found = {path: (set(), set()) for path in paths}
    for line in listed.stdout.splitlines():
        path, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        found[path][kind in "Uw"].add(name)
    return found


def list_objects(folder):
    """{object: source}, without objects of files that are no more."""
    for library in LIBRARIES:
        top = os.path.join(folder, f"{library}.dir")
        for path in glob.glob(f"{top}/**/*.c.o", recursive=True):
            source = os.path.relpath(path, top)[:-2]
            if os.path.exists(os.path.join(tree.ROOT, source)):
                yield path, source


def find_circles(objects):
    """Circles of modules and of folders, of {source: (what it defines, what it needs of others)}."""
    home = {name: test_rooms.module_of(path) for path, (defined, _) in objects.items() for name in defined}
    edges = collections.defaultdict(set)
    for path, (_, needed) in objects.items():
        module = test_rooms.module_of(path)
        edges[module] |= {home[name] for name in needed if name in home} - {module}
    found = []
    for members in test_rooms.circles(edges):
        calls = sorted(f"{a} -> {b}" for a in members for b in edges[a] if b in members)
        found.append(f"{members[0]}:1: modules that call each other: {'; '.join(calls)}")
    for members in test_rooms.circles(test_rooms.folder_edges(edges)):
        calls = sorted(f"{a} -> {b}" for a in edges for b in edges[a] if os.path.dirname(a) != os.path.dirname(b)
                       and {os.path.dirname(a), os.path.dirname(b)} <= set(members))
        found.append(f"{members[0]}/:1: folders that call each other: {'; '.join(calls)}")
    return found


def main(folder):
    sources = dict(list_objects(folder))
    objects = {sources[path]: both for path, both in (symbols(sources) if sources else {}).items()}
    tree.report(find_circles(objects), objects)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(tree.BUILD, "CMakeFiles"))
