# SPDX-License-Identifier: Apache-2.0
"""test_includes.py [ROOT]: no file includes what its layer may not see (layers.ini)."""

import configparser
import fnmatch
import os
import re
import sys

import tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
HERE = os.path.dirname(os.path.abspath(__file__))


def read_table(path):
    table = configparser.ConfigParser(delimiters="=")
    table.optionxform = str
    if not table.read(path):
        sys.exit(f"no table {path}")
    return [{key: value.split() for key, value in table[section].items()}
            for section in ("headers", "layers", "only")]


def layer_of(path, layers):
    return max((folder for folder in layers if path.startswith(folder)), key=len, default=None)


def family_of(header, families):
    return next((name for name, patterns in families.items()
                 if any(fnmatch.fnmatch(header, pattern) for pattern in patterns)), None)


def project_violation(path, header, layers):
    layer, of_header = layer_of(path, layers), layer_of(header, layers)
    if header.endswith("_internal.h") and of_header != layer and not layer.startswith("tests/"):
        return "is internal to its folder"
    if of_header == layer or any(header == entry or entry.endswith("/") and header.startswith(entry)
                                 for entry in layers[layer]):
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
        return []
    found = []
    text = tree.read(root, path)
    for match in INCLUDE.finditer(text):
        header = match[2]
        if header.startswith(tuple(layers)):
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
