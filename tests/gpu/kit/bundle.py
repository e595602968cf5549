# SPDX-License-Identifier: Apache-2.0
"""bundle.py BUILD DIR [--emulated] [--tests NAME,...] [--runner-v4 BUILD]: puts together what `scripts/gpu-check bundle` makes from
the programs of a build: DIR and, to carry it away, DIR.tar.gz, in pieces if it is large."""

import argparse
import json
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PIECE = 60 << 20  # bytes: less than what is carried at once
# The C library is the machine's own, as are CUDA's.
OF_MACHINE = re.compile(r"lib(c|m|dl|rt|pthread)\.so|ld-linux|linux-vdso|lib(cuda|cudart|cublas|cublasLt|nccl)\.so")
# Of the compiler: the machine's are newer or as old, and other programs there want its own.
SPARE = re.compile(r"lib(stdc\+\+|gcc_s)\.so")
TEST = re.compile(r"^TEST\([^{]*\.cuda = true", re.M)
PEERS = ["gpu_torch.py", "learner.py", "net.py", "turns.py"]


def gpu_tests():
    """{name: suite} of the tests for GPUs, in order."""
    found = {}
    for folder in ("kernels", "runtime", "tasks", "graph"):
        for path in sorted(glob.glob(os.path.join(ROOT, "tests", folder, "**/test_*.c"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                if TEST.search(file.read()):
                    found[os.path.basename(path)[:-2]] = os.path.relpath(path, os.path.join(ROOT, "tests"))[:-2]
    return found


def fail(why):
    print(f"gpu-check: {why}", file=sys.stderr)
    sys.exit(1)


def take(source, target, strip=False):
    if not os.path.exists(source):
        fail(f"the build has no {os.path.relpath(source)}")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(os.path.realpath(source), target)
    if strip:
        subprocess.run(["strip", "--strip-debug", target], check=True)  # a debugger finds names


def libraries(program):
    """{name: path} of what a copied program is linked with."""
    said = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
    if lost := re.search(r"(\S+) => not found", said):
        fail(f"{os.path.relpath(program)} needs {lost[1]}, which is not here")
    return dict(re.findall(r"(\S+) => (/\S+)", said))


def take_programs(build, folder, emulated, tests, runner_v4):
    ending, below = ("_emulated", "tests/emulation/") if emulated else ("", "")
    take(f"{build}/{below}runner{ending}", f"{folder}/bin/runner", True)
    if runner_v4:
        take(f"{runner_v4}/runner", f"{folder}/bin/runner-v4", True)
    take(f"{build}/bench/bench_parts{ending}", f"{folder}/bin/bench_parts", True)
    for name in sorted({"test_" + suite.partition("/")[0] for suite in tests.values()}):
        take(f"{build}/tests/{name}{ending}", f"{folder}/bin/{name}", True)
    take(f"{build}/tests/libcount_calls.so", f"{folder}/lib/libcount_calls.so", True)


def take_libraries(build, folder, emulated):
    wanted = {}
    for name in os.listdir(f"{folder}/bin"):
        wanted.update(libraries(f"{folder}/bin/{name}"))
    for plugin in os.listdir(f"{folder}/plugins"):
        if plugin.endswith(".so"):
            wanted.update(libraries(f"{folder}/plugins/{plugin}"))
    for name, path in wanted.items():
        if not OF_MACHINE.match(name):
            take(path, f"{folder}/lib/{'spare/' if SPARE.match(name) else ''}{name}", True)
    if emulated:
        for name in ("libcudart.so.13", "libcublasLt.so.13", "libnccl.so.2"):
            take(f"{build}/tests/emulation/{name}", f"{folder}/lib/{name}", True)


def take_files(build, folder):
    for source in ("configs", "tests/gpu/kit"):
        shutil.copytree(os.path.join(ROOT, source), f"{folder}/{os.path.basename(source)}",
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in PEERS:
        take(os.path.join(ROOT, "bench/peers", name), f"{folder}/bench/peers/{name}")
    take(os.path.join(ROOT, "bench/machine.py"), f"{folder}/bench/machine.py")
    plugins = os.environ.get("HEDDLE_PLUGINS", os.path.join(ROOT, "build/plugins"))
    take(f"{build}/tests/plugins/heddle_env_blink.so", f"{folder}/plugins/heddle_env_blink.so", True)
    if os.path.exists(f"{plugins}/heddle_env_atari.so"):
        take(f"{plugins}/heddle_env_atari.so", f"{folder}/plugins/heddle_env_atari.so", True)
        for rom in ("pong.bin", "ALE-LICENSE.md"):
            take(f"{plugins}/atari_roms/{rom}", f"{folder}/plugins/atari_roms/{rom}")
    with open(f"{folder}/run", "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\n# Verifies Heddle on this machine\'s GPU: run --help\n'
                   'exec python3 "$(dirname "$0")/kit/run.py" "$@"\n')
    os.chmod(f"{folder}/run", 0o755)


def describe(build, folder, emulated, tests):
    words = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    commit = subprocess.run(words, text=True, capture_output=True, check=False).stdout.strip()
    cache = {}
    with open(f"{build}/CMakeCache.txt", encoding="utf-8") as file:
        cache = dict(re.findall(r"^([\w-]+):\w+=(.*)$", file.read(), re.M))
    about = {"commit": commit, "date": time.strftime("%Y-%m-%d"), "emulated": emulated, "tests": tests,
             "march": cache.get("HD_MARCH"), "cuda_architectures": cache.get("CMAKE_CUDA_ARCHITECTURES"),
             "starpu": cache.get("STARPU_VERSION")}
    with open(f"{folder}/bundle.json", "w", encoding="utf-8") as file:
        json.dump(about, file, indent=2)
        file.write("\n")


def pack(folder):
    """DIR.tar.gz, or DIR.tar.gz.0, .1, …; how to make DIR of them."""
    archive = folder + ".tar.gz"
    for name in os.listdir(os.path.dirname(folder)):
        if name.startswith(os.path.basename(archive)):
            os.remove(os.path.join(os.path.dirname(folder), name))
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(folder, arcname=os.path.basename(folder))
    size = os.path.getsize(archive)
    if size <= PIECE:
        return [archive]
    pieces = []
    with open(archive, "rb") as file:
        while block := file.read(PIECE):
            pieces.append(f"{archive}.{len(pieces)}")
            with open(pieces[-1], "wb") as piece:
                piece.write(block)
    os.remove(archive)
    return pieces


def size(path):
    files = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    return sum(map(os.path.getsize, files or [path])) / (1 << 20)


def tell(folder, pieces):
    print(f"{folder}: {size(folder):.1f} MB")
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        inside = f"  {' '.join(sorted(os.listdir(path)))}" if os.path.isdir(path) else ""
        print(f"  {name:12s} {size(path):7.1f} MB{inside[:400]}")
    if not os.path.exists(f"{folder}/plugins/heddle_env_atari.so"):
        print("  without Atari: scripts/atari has not been run")
    for piece in pieces:
        print(f"{piece}: {size(piece):.1f} MB")
    name = os.path.basename(folder)
    if pieces:
        print(f"On the GPU's machine: cat {name}.tar.gz{'.*' if len(pieces) > 1 else ''} | tar -xz && {name}/run")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--tests")
    parser.add_argument("--runner-v4")
    given = parser.parse_args()
    build, folder = os.path.abspath(given.build), os.path.abspath(given.folder)
    tests = {name: suite for name, suite in gpu_tests().items() if not given.tests or name in given.tests.split(",")}
    if os.path.exists(folder) and os.listdir(folder) and not os.path.exists(f"{folder}/bundle.json"):
        fail(f"{given.folder} is something else than a bundle")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    describe(build, folder, given.emulated, tests)
    take_files(build, folder)
    take_programs(build, folder, given.emulated, tests, given.runner_v4)
    take_libraries(build, folder, given.emulated)
    tell(folder, pack(folder) if not given.emulated else [])


if __name__ == "__main__":
    main()
