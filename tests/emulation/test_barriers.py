#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_barriers.py [--all]: no kernel has a race, and each barrier of the kernels is needed: the tests of kernels run
on the emulation, which looks for races, first as they are, then without one barrier after the other, and then the
emulation has to find a race. Without --all the suites that take long and the barriers of their kernels are left
to the campaign."""

import concurrent.futures
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, environment, skip  # noqa: E402
from ways import take_share  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(os.environ.get("HD_RUNNER_EMULATED", "")), "../test_kernels_racing")
SLOW = ("test_list_cuda", "test_actor_critic", "test_net", "test_pixel_pong_cuda", "test_net_cuda", "test_conv_net")  # ever longer
BARRIER = re.compile(r"\b__syncthreads\w*\(")
RACE = re.compile(r"emulation: kernel .*: race: .*")


def list_barriers():
    for path in sorted(glob.glob(os.path.join(ROOT, "kernels/**/*.cu*"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if BARRIER.search(line):
                    yield f"{os.path.relpath(path, ROOT)}:{number}"


def list_suites():
    """Those with tests for GPUs, by their names."""
    listed = subprocess.run([PROGRAM, "--cuda", "--list"], text=True, capture_output=True, check=True).stdout
    return {line.partition(":")[0].rpartition("/")[2]: line.partition(":")[0] for line in listed.splitlines()}


def run(suite, **variables):
    """A suite takes ten times as long as without the search for races."""
    env = environment(**variables)
    return subprocess.run([PROGRAM, "--cuda", suite], env=env, text=True, errors="replace", capture_output=True)


def run_as_it_is(suite, path, barriers):
    """Those of the barriers that a suite comes to."""
    done = run(suite, HD_EMULATED_BARRIERS=path)
    check(done.returncode == 0, f"{suite} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        places = tuple(line.strip() for line in file)
    return {barrier for barrier in barriers if any(place.endswith("/" + barrier) for place in places)}


def find_race(barrier, suites):
    """What the emulation says without this barrier, in the first suite where it says something."""
    for suite in suites:
        race = RACE.search(run(suite, HD_EMULATED_WITHOUT_BARRIER=barrier).stderr)
        if race:
            return race.group()
    return None


def main(everything):
    if not os.path.exists(PROGRAM):
        skip("there is no CUDA toolkit, or another sanitizer is built in")
    suites = list_suites()
    names = [name for name in suites if name not in SLOW] + [name for name in SLOW if everything]
    barriers = list(list_barriers())
    with Scratch() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reached = dict(zip(names, pool.map(
            lambda name: run_as_it_is(suites[name], scratch(name), barriers), names)))
        print(f"{len(names)} suites without a race")
        seen = [barrier for barrier in barriers if any(barrier in places for places in reached.values())]
        tried = seen if everything else take_share(seen, "barriers", of=8)
        users = [[suites[name] for name in names if barrier in reached[name]] for barrier in tried]
        for barrier, race in zip(tried, pool.map(find_race, tried, users)):
            check(race, f"nothing is found without the barrier at {barrier}: no test needs it, or nobody does")
            print(f"without {barrier}: {race}")
    left = sorted(set(barriers) - set(seen))
    print(f"{len(tried)} of {len(barriers)} barriers tried")
    check(tried and not (everything and left), f"no test comes to the barriers at {', '.join(left)}")


main("--all" in sys.argv[1:])
