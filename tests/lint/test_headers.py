# SPDX-License-Identifier: Apache-2.0
"""test_headers.py [ROOT]: every header compiles alone, and twice, as C17 without a warning; those that
C++ code may include (a plug-in's shim) also as C++."""

import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess

import tree

COMMON = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I."]
C = [os.environ.get("CC", "cc"), "-x", "c", "-std=gnu17", "-Wstrict-prototypes", *COMMON]
CXX = [os.environ.get("CXX", "c++"), "-x", "c++", "-std=c++17", *COMMON]
MODULES = ("hwloc", "yaml-0.1", "jansson", "libxxhash", "libprotobuf-c", "libsodium", "check")
FOR_CXX = ("kernels/envs/env.h", "infer/infer.h")


def guard_violations(root, path):
    return [] if "\n#pragma once\n" in tree.read(root, path) else [f"{path}:1: no line '#pragma once'"]


def compile_violations(root, path, command, flags):
    source = f'#include "{path}"\n#include "{path}"\n'
    done = subprocess.run([*command, *flags, "-"], cwd=root, input=source, text=True,
                          capture_output=True)
    if done.returncode == 0:
        return []
    return [f"{path}:1: does not compile alone with {command[0]}\n{done.stderr.strip()}"]


def library_flags():
    starpu = subprocess.run(["pkg-config", "--exists", "starpu-1.3"], check=False).returncode == 0
    modules = [*MODULES, "starpu-1.3" if starpu else "starpu-1.4"]
    flags = shlex.split(subprocess.run(["pkg-config", "--cflags", *modules], capture_output=True, text=True,
                                       check=True).stdout)
    # Warnings are for our own headers.
    return ["-I" + tree.BUILD, *(re.sub("^-I", "-isystem", flag) for flag in flags)]


def main(root):
    flags = library_flags()
    paths = tree.files(root, ".h")
    if compile_violations(root, "cuda_runtime_api.h", C, flags):
        print("no CUDA toolkit: headers that include CUDA's are not compiled")
        paths = [path for path in paths if "#include <cuda" not in tree.read(root, path)]
    jobs = [(path, C) for path in paths]
    if shutil.which(CXX[0]):
        jobs += [(path, CXX) for path in paths if path in FOR_CXX]
    else:
        print("no C++ compiler: headers are checked as C only")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda job: compile_violations(root, *job, flags), jobs))
    found += [guard_violations(root, path) for path in tree.files(root, ".h", ".cuh", ".hpp")]
    tree.report([line for lines in found for line in lines], paths)


if __name__ == "__main__":
    main(tree.root())
