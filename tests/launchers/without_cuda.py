# SPDX-License-Identifier: Apache-2.0
"""Puts stand-ins beside the PyTorch of this Python's environment for the libraries of CUDA that it links to.
They have the names that PyTorch asks for, and no more: PyTorch works as long as nothing touches a GPU."""

import glob
import os
import subprocess
import sysconfig
import tempfile

TORCH = os.path.join(sysconfig.get_path("purelib"), "torch")
CUDA = ("libcu", "libnv", "libnccl")


def output(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout.splitlines()


def needed(path):
    """The libraries that one links to."""
    return {line.split("[")[1].rstrip("]") for line in output("readelf", "-d", path) if "(NEEDED)" in line}


def symbols(path):
    """The names that a library takes from others, as name@version where they have a version."""
    return {line.split()[-1] for line in output("nm", "-D", "--undefined-only", path) if line.split()[-2] == "U"}


def versions(path):
    """The versions of names that a library takes from others, with the name of the library."""
    file = ""
    for line in output("objdump", "-p", path):
        if "required from " in line:
            file = line.split("required from ")[1].rstrip(":")
        elif file and line.startswith("    0x"):
            yield line.split()[-1], file
        else:
            file = ""


def make_stand_in(path, names):
    """A library of functions, each with the version that it is asked for. They return the address of zeros: an
    error, where a number is expected, and an empty text where one is."""
    nodes = {}
    for name, _, version in (name.partition("@") for name in names):
        nodes.setdefault(version, []).append(name)
    labels = "".join(f".globl {name}\n{name}:\n" for group in nodes.values() for name in group)
    source = (f".text\n{labels} lea zeros(%rip), %rax\n ret\n.bss\nzeros: .zero 4096\n"
              ".section .note.GNU-stack,\"\"\n")
    with tempfile.NamedTemporaryFile("w", suffix=".map") as file:
        for version, group in nodes.items():
            file.write(f"{version} {{ global: {'; '.join(group)}; }};\n" if version else "{ global: *; };\n")
        file.flush()
        subprocess.run(["gcc", "-shared", "-nostdlib", "-x", "assembler", "-", f"-Wl,--version-script={file.name}",
                        "-o", path], input=source, text=True, check=True)


def main():
    libraries = glob.glob(f"{TORCH}/lib/*.so*") + glob.glob(f"{TORCH}/_C*.so")
    names = set().union(*map(symbols, libraries))
    files = dict(pair for path in libraries for pair in versions(path))
    for library in set().union(*map(needed, libraries)):
        if library.startswith(CUDA):
            versioned = {name for name in names if files.get(name.partition("@")[2]) == library}
            plain = {name for name in names if name.startswith(("cu", "nv", "__cu", "nccl")) and "@" not in name}
            make_stand_in(f"{TORCH}/lib/{library}", sorted(versioned or plain))


main()
