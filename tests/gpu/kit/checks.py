# SPDX-License-Identifier: Apache-2.0
"""Tests of kernels on the GPU: each program's cases, again under compute-sanitizer, and how far results are
from their references."""

import concurrent.futures
import os
import re
import time

from facts import find_tool
from jobs import FAILED, MEASURED, NO_TIME, PASSED, SKIPPED, read_lines

AT_ONCE = 8
FORKING = ["test_nccl"]  # ranks by itself, before it uses a GPU
TEST_LIMIT, SANITIZER_LIMIT, SANITIZER_IN_ALL = 240, 120, 500
# Small enough to be run a hundred times slower. The rest allocate or compute too much.
SANITIZED = ["test_adam", "test_partials", "test_grad_norm", "test_dqn_loss", "test_ppo_loss", "test_gae",
             "test_categorical", "test_exploration", "test_replay", "test_steps", "test_moments",
             "test_gemm", "test_net", "test_list_cuda"]
FINDINGS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Parts of the names of cuBLASLt's kernels, none of them of ours: what the library does is not to be judged here.
LIBRARY_KERNELS = ("cublas", "cutlass", "gemm", "magma", "nvjet", "xmma")


def read_tap(path):
    """([names that passed], [names that did not])"""
    passed, failed = [], []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if case := re.match(r"(not )?ok \d+ - [^:]*:(.*)", line):
                    (failed if case[1] else passed).append(case[2].strip())
    return passed, failed


def start_test(kit, name, **env):
    if name in FORKING:
        env.pop("CK_FORK", None)
    step, residuals, tap = f"tests/{name}", kit.file("residuals", name + ".jsonl"), kit.file("tap", name + ".tap")
    for path in (residuals, tap):
        if os.path.exists(path):
            os.remove(path)
    return kit.start(step, kit.test(name), cwd=os.path.dirname(tap),
                     env=kit.environment(HD_RESIDUALS=residuals, CK_TAP_LOG_FILE_NAME=tap, **env))


def finish_test(kit, name, process):
    done = kit.finish(process, TEST_LIMIT)
    passed, failed = read_tap(kit.file("tap", name + ".tap"))
    result = done.outcome()
    if result["outcome"] == PASSED and not passed:
        result = {"outcome": FAILED, "why": "it ran no test"}
    return {**result, "what": f"{len(passed)} of {len(passed) + len(failed)} cases", "seconds": round(done.seconds, 2),
            "cases_passed": passed, "cases_failed": failed}


def run_test(kit, name):
    """All cases in one process, because each process needs up to a second for its context on the GPU; after a
    failure each in one of its own, so that one case's end says nothing of the next."""
    try:
        result = finish_test(kit, name, start_test(kit, name, CK_FORK="no"))
        if result["outcome"] not in (PASSED, SKIPPED):
            together = result.get("why", "")
            result = finish_test(kit, name, start_test(kit, name, CK_DEFAULT_TIMEOUT="60"))
            result["together"] = together
    except OSError as error:
        result = {"outcome": FAILED, "why": str(error)}
    kit.record(f"tests/{name}", **result)


def tests(kit):
    with concurrent.futures.ThreadPoolExecutor(2 if kit.tiny else AT_ONCE) as pool:
        for future in [pool.submit(run_test, kit, name) for name in kit.about["tests"]]:
            future.result()


def sanitize(kit, tool, name):
    step = f"sanitizer/{tool}/{name}"
    program = find_tool("compute-sanitizer")
    if kit.tiny or not program:
        kit.record(step, SKIPPED, why="on the emulation" if kit.tiny else "there is no compute-sanitizer here")
        return
    command = [program, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9", "--kernel-name-exclude",
               ",".join(f"kns={part}" for part in LIBRARY_KERNELS), *kit.test(name)]
    done = kit.execute(step, command, SANITIZER_LIMIT, env=kit.environment(CK_FORK="no"))
    counts = [int(a or b) for a, b in FINDINGS.findall(done.said)]
    result = done.outcome()
    if result["outcome"] == PASSED and (not counts or any(counts)):
        result = {"outcome": FAILED, "why": f"{sum(counts)} findings" if counts else "it says nothing of errors"}
    kit.record(step, **result, what=f"{sum(counts)} findings", seconds=round(done.seconds, 2))


def sanitizer(kit):
    end = time.monotonic() + SANITIZER_IN_ALL
    for tool in TOOLS:
        for name in [name for name in SANITIZED if name in kit.about["tests"]]:
            if time.monotonic() < end:
                sanitize(kit, tool, name)
            else:
                kit.record(f"sanitizer/{tool}/{name}", NO_TIME)


def share_of(line):
    """A residual beside what is allowed, which is nothing where bits are compared."""
    return line["residual"] / line["limit"] if line["limit"] else 2.0 * (line["residual"] > 0)


def worst_of_places(path):
    """Of the lines that a test's processes have left, for every place the one nearest its limit."""
    table = {}
    for line in read_lines(path):
        known = table.setdefault((line["at"], line["what"]), {**line, "share": -1, "checks": 0})
        checks, share = known["checks"] + line["checks"], share_of(line)
        if share > known["share"]:
            known.update(line, share=round(share, 6))
        known["checks"] = checks
    return sorted(table.values(), key=lambda line: -line["share"])


def tolerances(kit):
    """For every place in a test that compares with a reference: the largest residual, and what is allowed."""
    for test in kit.about["tests"]:
        places = worst_of_places(kit.file("residuals", test + ".jsonl"))
        if not places:
            kit.record(f"tolerances/{test}", SKIPPED, why="it compares bits, or has not been run")
            continue
        worst = places[0]
        kit.record(f"tolerances/{test}", MEASURED if worst["share"] <= 1 else FAILED, value=worst["residual"],
                   unit=f"of {worst['limit']:g}", what=f"{worst['what']}, the worst of {len(places)} places",
                   places=places)
