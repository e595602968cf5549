# SPDX-License-Identifier: Apache-2.0
"""test_symbols.py [LIBRARY ...]: every symbol that our static libraries define starts with hd_, and no
layer but the runtime needs a symbol of a communication or task library."""

import glob
import os
import re
import subprocess
import sys

import tree

FOREIGN = re.compile(r"_?starpu_|MPI_|nccl|hwloc_")
GENERATED = ".pb-c.c.o"  # protobuf's names come from the message's package
REPLACED = ("starpu_cuda_report_error",)  # a function of StarPU's that StarPU is to call in place of its own


def symbols(library, *options):
    """(object file, symbol) of each line that nm prints."""
    done = subprocess.run(["nm", "-A", "-g", *options, library], capture_output=True, text=True,
                          check=True)
    for line in done.stdout.splitlines():
        place, _, rest = line.rpartition(":")
        yield place.rpartition(":")[2], rest.split()[-1]


def violations_in(library):
    for place, name in symbols(library, "--defined-only"):
        if not name.startswith("hd_") and name not in REPLACED and not place.endswith(GENERATED):
            yield f"{library}: {place} defines {name} without the prefix hd_"
    if library.endswith("libhd_runtime.a"):
        return
    for place, name in symbols(library, "--undefined-only"):
        if FOREIGN.match(name):
            yield f"{library}: {place} needs {name}"


def main(*libraries):
    tree.report([line for library in libraries for line in violations_in(library)], libraries)


if __name__ == "__main__":
    main(*(sys.argv[1:] or sorted(glob.glob(os.path.join(tree.BUILD, "libhd_*.a")))))
