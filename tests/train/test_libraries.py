#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No program or plug-in, built or installed, looks for libraries in the current directory; `runner graph` runs no code
that only the config names; and no library of CUDA is loaded where no GPU is used."""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, sets, skip  # noqa: E402

BUILD = os.path.dirname(RUNNER)
EVIL = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void tell(void)
{
    write(1, "PLANTED\\n", 8);
}
"""


def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16] in (2, 3)  # a program or a shared object


def list_objects(*folders):
    for folder in folders:
        for at, inner, files in os.walk(folder):
            inner[:] = [name for name in inner if name not in ("CMakeFiles", "venv", "peers", "starpu-source", "atari", "gymnasium")]
            yield from (path for path in (os.path.join(at, name) for name in files) if is_elf(path))


def read_dynamic(path):
    done = subprocess.run(["readelf", "-d", "-W", path], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "RUNPATH" in line or "RPATH" in line or "NEEDED" in line]


def check_paths(objects):
    checked = 0
    for path in objects:
        for line in read_dynamic(path):
            value = line.partition("[")[2].rpartition("]")[0]
            if "NEEDED" in line:
                check("/" not in value or value.startswith("/"), f"{path} needs {value}")
                continue
            checked += 1
            for element in value.split(":"):
                check(element.startswith(("/", "$ORIGIN/")) or element == "$ORIGIN",
                      f"{path} looks for libraries in '{element}' of [{value}]")
                check(not element.startswith(ROOT + "/") or path.startswith(BUILD), f"{path} needs this checkout: {value}")
    return checked


def compile_evil(scratch, name):
    with open(scratch("evil.c"), "w", encoding="utf-8") as file:
        file.write(EVIL)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", name, scratch("evil.c")], check=True)
    return name


def list_libraries(program):
    """The libraries that the program loads, at any depth."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if "=>" in line]


def plant(scratch, program):
    """Fills a directory with libraries called as those of the program, and runs it there."""
    os.makedirs(scratch("cwd"), exist_ok=True)
    planted = compile_evil(scratch, scratch("planted.so"))
    for name in list_libraries(program):
        shutil.copy(planted, os.path.join(scratch("cwd"), name))
    done = subprocess.run([program, "--version"], cwd=scratch("cwd"), env=environment(), capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0 and "PLANTED" not in done.stdout and "heddle" in done.stdout,
          f"{program} in a directory with planted libraries: {done}")


def check_graph(scratch):
    plugin = compile_evil(scratch, scratch("env.so"))
    graph = ("graph", CONFIG, "--set", f"env.type={plugin}")
    done = call(*graph, expect=2)
    check("PLANTED" not in done.stdout, done.stdout)
    for words in ("--set:1:10: env.type", f"({os.path.realpath(plugin)})", "--allow-plugin"):
        check(words in done.stderr, f"expected {words} in:\n{done.stderr}")
    for allowed in (call(*graph, "--allow-plugin", expect=2), call(*graph, env=environment(HEDDLE_ALLOW_PLUGIN=1), expect=2)):
        check("PLANTED" in allowed.stdout and "exports no hd_env_plugin" in allowed.stderr, f"{allowed}")


def check_loaded(scratch):
    env = environment(LD_DEBUG="files", LD_DEBUG_OUTPUT=scratch("libraries"))
    call("run", os.path.join(ROOT, "configs/pixel_pong_ppo_fast.yaml"), "--dir", scratch("loaded"), "--quiet",
         *sets(policy__cuda="false", max_env_step=1, max_train_iter=1, policy__learn__epoch_per_collect=1,
               env__n_evaluator_episode=1, env__max_evaluator_step=1), env=env)
    loaded = set()
    for name in os.listdir(scratch("")):
        if name.startswith("libraries."):
            with open(scratch(name), encoding="utf-8") as file:
                loaded |= {os.path.basename(path) for path in re.findall(r"calling init: (\S+)", file.read())}
    check(any(name.startswith("libhwloc") for name in loaded), f"these are not all libraries: {sorted(loaded)}")
    cuda = {name for name in loaded if re.match(r"lib(cu|nccl|nv)", name)}
    check(not cuda, f"loaded without a GPU: {sorted(cuda)}")
    print(f"{len(loaded)} libraries, none of which is CUDA's")


def main():
    for tool in ("cc", "readelf", "ldd", "cmake"):
        if not shutil.which(tool):
            skip(f"there is no {tool}")
    with Scratch() as scratch:
        check_loaded(scratch)
        check_graph(scratch)
        prefix = scratch("installed")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        checked = check_paths(list_objects(BUILD, prefix))
        check(checked > 10, f"only {checked} search paths")
        for program in (RUNNER, os.path.join(prefix, "bin/runner")):
            plant(scratch, program)
        print(f"{checked} search paths read")


main()
