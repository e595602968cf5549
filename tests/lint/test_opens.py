# SPDX-License-Identifier: Apache-2.0
"""test_opens.py [ROOT]: files are opened for reading by hd_input_open alone, which refuses pipes and devices, on which
a program would wait for ever. What the kernel writes, folders, and files that are opened to be written are others'."""

import re

import tree

CALL = re.compile(r"(?<![\w>.])(?:std::)?(fopen|freopen|openat|open|json_load_file)\(((?:[^()]|\([^()]*\))*)\)")
OTHER = re.compile(r"O_DIRECTORY|O_TMPFILE|O_WRONLY|\"/proc/|\"/dev/null\"|, *\"[wa]\w*\"$")
KNOWN = {
    "runtime/base/input/input.c": "hd_input_open",
    "runtime/machine/machine.c": "/proc, /sys and control groups",
    "runtime/comm/comm_file.c": "memory of another rank, in its /proc, whose name is compared first",
    "runtime/ranks/host/host_secret.c": "the secret of a host's ranks, from a folder that nobody else can write",
    "kernels/envs/atari/ale/emulator.cpp": "ROMs, which games.c has looked at",
}


def violations(path, text):
    for call in CALL.finditer(text):
        if not OTHER.search(call[2]) and not re.match(r"(?:const )?\w+ \*?\w", call[2]):
            number = text.count("\n", 0, call.start()) + 1
            yield f"{path}:{number}: {call[1]} reads a file; hd_input_open is for that"


def main(root):
    paths = [path for path in tree.files(root, ".c", ".cu", ".cpp") if path.startswith(tree.PRODUCT)]
    tree.report([line for path in paths if path not in KNOWN for line in violations(path, tree.read(root, path))], paths)


if __name__ == "__main__":
    main(tree.root())
