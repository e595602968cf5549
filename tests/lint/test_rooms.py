# SPDX-License-Identifier: Apache-2.0
"""test_rooms.py [ROOT]: no folder of code has more files side by side than a reader can look over, and
no two modules include each other, directly or round a circle, nor do two folders. A module is the files of one name:
adam.h, adam_cpu.c, adam_cuda.cu and adam_internal.h. No two CUDA sources have types of one name with functions for
GPUs, of which the linker would keep one. Every kernel waits for its inputs before all else (HD_AWAIT_INPUTS)."""

import collections
import os
import re

import tree

MOST = 25  # files side by side
CODE = (".c", ".h", ".cu", ".cuh", ".cpp", ".hpp")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
KERNEL = re.compile(r"__global__[^{;]*\{\n(?! *HD_AWAIT_INPUTS\(\);\n)")
FUNCTOR = re.compile(r"^(?:template *<.*> *)?struct (\w+) \{\n(?:(?!\};).*\n)*?.*__device__", re.M)


def crowded(paths):
    folders = collections.Counter(os.path.dirname(path) for path in paths)
    return [f"{folder}/:1: {n} files side by side, more than {MOST}"
            for folder, n in sorted(folders.items()) if n > MOST]


def twins(root, paths):
    """C++ knows types by their names alone, so that functions of two are one to the linker."""
    places = collections.defaultdict(list)
    for path in paths:
        for name in FUNCTOR.findall(tree.read(root, path)) if path.endswith(".cu") else ():
            places[name].append(path)
    return [f"{found[-1]}:1: {found[0]} has a type {name}, too" for name, found in sorted(places.items()) if len(found) > 1]


def early(root, paths):
    """A kernel that reads or writes before its predecessor has ended."""
    for path in paths:
        text = tree.read(root, path) if path.endswith((".cu", ".cuh")) else ""
        yield from (f"{path}:{text.count(chr(10), 0, match.start()) + 1}: this kernel does not begin with HD_AWAIT_INPUTS()"
                    for match in KERNEL.finditer(text))


def module_of(path):
    return re.sub(r"(_cpu|_cuda|_internal)?\.\w+$", "", path)


# A net is a list of layers, of which it makes a walk for each device.
KNOWN = ({"kernels/net", "kernels/net/list"}, {"kernels/net/list", "kernels/net/list/gpu"})


def folder_edges(edges):
    """Edges between the folders of modules or files."""
    between = collections.defaultdict(set)
    for a, others in edges.items():
        a = os.path.dirname(a)
        between[a] |= {b for b in map(os.path.dirname, others) if b != a and {a, b} not in KNOWN}
    return between


def circles(edges):
    """The strongly connected sets of more than one module (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return [sorted(members) for members in found if len(members) > 1]


def main(root):
    paths = [path for path in tree.files(root, *CODE) if path.startswith(tree.PRODUCT)]
    edges = collections.defaultdict(set)
    for path in paths:
        edges[module_of(path)] |= {module_of(header) for header in INCLUDE.findall(tree.read(root, path))
                                   if header.startswith(tree.PRODUCT)} - {module_of(path)}
    found = [f"{members[0]}:1: includes in a circle: {' '.join(members)}"
             for members in circles(edges)]
    found += [f"{members[0]}/:1: folders include each other in a circle: {' '.join(members)}"
              for members in circles(folder_edges(edges))]
    tree.report([*crowded(paths), *found, *twins(root, paths), *early(root, paths)], paths)


if __name__ == "__main__":
    main(tree.root())
