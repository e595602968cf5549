# SPDX-License-Identifier: Apache-2.0
"""test_includes.py [ROOT]: no file includes what its layer may not see (layers.ini)."""

import configparser
import fnmatch
import os
import re
import sys

import tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
TOPS = (*tree.PRODUCT, "tests/", "bench/")
HERE = os.path.dirname(os.path.abspath(__file__))


def read_table(path):
    table = configparser.ConfigParser(delimiters="=")
    table.optionxform = str
    if not table.read(path):
        sys.exit(f"no table {path}")
    return [{key: value.split() for key, value in table[section].items()}
            for section in ("headers", "layers", "only")]


def layer_of(path, layers):
    """The row of a file's folder; tests have one row for all their folders but for those with their own."""
    folder = os.path.dirname(path) + "/"
    while folder not in layers and folder.startswith(("tests/", "bench/")):
        folder = folder[:folder[:-1].rfind("/") + 1]
    return folder if folder in layers else None


def family_of(header, families):
    return next((name for name, patterns in families.items()
                 if any(fnmatch.fnmatch(header, pattern) for pattern in patterns)), None)


def allows(entry, header):
    if entry.endswith("/**"):
        return header.startswith(entry[:-2])
    return header == entry or entry == os.path.dirname(header) + "/"


def project_violation(path, header, layers):
    layer, folder = layer_of(path, layers), os.path.dirname(header) + "/"
    if re.search(r"_internal\.\w+$", header) and not path.startswith((folder, "tests/")):
        return "is internal to its folder"
    if os.path.dirname(path) + "/" == folder or any(allows(entry, header) for entry in layers[layer]):
        return None
    return f"may not be seen by {layer}"


def outside_violation(path, header, layers, families, only):
    if header in only and path not in only[header] and not path.startswith("tests/"):
        return f"is for {' '.join(only[header])} alone"
    family = family_of(header, families)
    if not family:
        return "is in no family of layers.ini"
    layer = layer_of(path, layers)
    return None if family in layers[layer] else f"({family}) may not be seen by {layer}"


def violations_in(root, path, table):
    families, layers, only = table
    if not layer_of(path, layers):
        return [f"{path}:1: its folder has no row in layers.ini"]
    found = []
    text = tree.read(root, path)
    for match in INCLUDE.finditer(text):
        header = match[2]
        if header.startswith(TOPS):
            problem = project_violation(path, header, layers)
        elif match[1] == '"' and not family_of(header, families):
            problem = "is not included from the root"
        else:
            problem = outside_violation(path, header, layers, families, only)
        if problem:
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: {header} {problem}")
    return found


def main(root):
    table = read_table(os.path.join(HERE, "layers.ini"))
    paths = tree.files(root, ".c", ".h", ".cu", ".cuh", ".cpp", ".hpp")
    tree.report([line for path in paths for line in violations_in(root, path, table)], paths)


if __name__ == "__main__":
    main(tree.root())
