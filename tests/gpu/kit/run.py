# SPDX-License-Identifier: Apache-2.0
"""usage: run [--phase N | --only NAME,...] [--tests NAME,...] [--seconds N] [OUT]

Verifies Heddle on this machine's GPU and measures it. Everything is in this folder but CUDA's libraries
(cudart, cuBLAS, NCCL), which are found in its toolkit or among Python's packages (or in the folders of
$HD_CUDA_LIBRARIES), and PyTorch, for comparison. Each step has a time limit, and none that fails keeps the
next from being made. OUT (default: gpu-check-results) gets results.txt and results.tar.gz (of phase N:
results-N.*), both rewritten as results come, so that nothing is lost when the machine is taken away. At home,
`scripts/gpu-check record OUT` reads them. Logs and runs stay in the folder `work` here.

phases and their steps, in this order; each phase is done within 560 s:
  1  smoke        a kernel, a GEMM, a recorded graph, a chain of StarPU's, 20 updates: in seconds
     tests        the cases of all test programs that are for GPUs; what fails runs again, case by case
     tolerances   the largest residual of each comparison of `tests` with a reference
     bits         CartPole with DQN and PPO: the same parameters by any scheduler, by ranks and by shards
  2  kernels      time of updates, without StarPU
     hops         time of an empty task on the GPU, and of one there and one on a CPU in turns
     strategies   `runner bench` of serial, bucketed and pipelined: updates of the program
     steady       calls of CUDA that wait, in a run that is warm
  3  games        Pong to a mean return of 18
  4  early        kernels that are launched early (HD_EARLY_LAUNCH=1): the same parameters, time of updates
     sanitizer    some tests under compute-sanitizer: memcheck, racecheck, synccheck, initcheck
  5  peers        the updates of `kernels` in PyTorch: eager, CUDA graphs, compiled

  --phase N         the steps of one phase (machine always)
  --only NAME,...   these steps
  --tests NAME,...  of `tests`, `sanitizer` and `tolerances` these programs
  --seconds N       time for all (default: 560 for each phase); steps that find none left are not begun

A run of the program that fails runs again with runtime.executor=sequential, whose message names the task.

Exit code: 0 everything passed or was skipped with a reason, 1 something failed, 77 there is no GPU.
HD_GPU_CHECK_EMULATED=1 runs a bundle of emulated programs (`scripts/gpu-check bundle --emulated`) in small
sizes, which says whether the kit works and nothing of a GPU."""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checks  # noqa: E402
import facts  # noqa: E402
import speed  # noqa: E402
import training  # noqa: E402
from jobs import FAILED, NO_GPU, NO_TIME, PASSED, ROOT, TIMED_OUT, Kit  # noqa: E402

PHASES = [{"smoke": training.smoke, "tests": checks.tests, "tolerances": checks.tolerances, "bits": training.bits},
          {"kernels": speed.kernels, "hops": speed.hops, "strategies": training.strategies,
           "steady": training.steady},
          {"games": training.games},
          {"early": training.early, "sanitizer": checks.sanitizer},
          {"peers": speed.peers}]
STEPS = {name: step for phase in PHASES for name, step in phase.items()}
PHASE_S = 560
LEAST_S = 5  # that a step is begun with


def machine(kit, found):
    about = facts.describe(kit.environment(), found)
    kit.gpu = (about["gpus"][0]["name"] if about["gpus"] else "emulated") if about["gpus_seen"] else None
    about = {"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "gpu": kit.gpu, "emulated": kit.tiny,
             "bundle": kit.about, **about}
    with open(kit.file("machine.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps(about) + "\n")
    with open(kit.file("results.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"machine": kit.gpu, "date": about["time"][:10], "commit": kit.about["commit"],
                               "emulated": kit.tiny}) + "\n")
    kit.record("machine", PASSED, what=f"{kit.gpu or 'no GPU'}, {about['cores']} cores, {about['cpu']}")
    for name, where in found.items():
        if not where and kit.gpu:
            kit.record(f"machine/{name}", FAILED, why="found nowhere; name its folder in HD_CUDA_LIBRARIES")


def take_steps(kit, names):
    for name in names:
        if not kit.gpu:
            kit.record(name, NO_GPU)
        elif kit.left() < LEAST_S:
            kit.record(name, NO_TIME)
        else:
            print(f"{name}:", flush=True)
            try:
                STEPS[name](kit)
            except Exception as error:  # whatever it is, the next step may work
                kit.record(name, FAILED, why=f"{type(error).__name__}: {error}")
            kit.pack()


def summarise(kit):
    kit.pack()
    print(f"\n{kit.summary()}\nresults: {kit.out}/{kit.name}.tar.gz")
    if not kit.gpu:
        return 77
    return 1 if any(line["outcome"] in (FAILED, TIMED_OUT, NO_TIME) for line in kit.results) else 0


def names_of(text):
    return [name for name in text.split(",") if name] if text else None


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--phase", type=int, choices=range(1, len(PHASES) + 1))
    parser.add_argument("--only")
    parser.add_argument("--tests")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("out", nargs="?", default="gpu-check-results")
    given = parser.parse_args()
    if given.help:
        print(__doc__)
        return 0
    only, tests = names_of(given.only), names_of(given.tests)
    for name in set(only or []) - set(STEPS) - {"machine"}:
        parser.error(f"no step is called {name}; there are: machine, {', '.join(STEPS)}")
    if given.phase and only:
        parser.error("--phase and --only exclude each other")
    steps = list(PHASES[given.phase - 1]) if given.phase else [name for name in STEPS if not only or name in only]
    seconds = given.seconds or PHASE_S * (1 if given.phase else len(PHASES))
    chosen, found = facts.find_libraries(os.path.join(ROOT, "lib"))
    kit = Kit(given.out, f"results-{given.phase}" if given.phase else "results", chosen,
              os.environ.get("HD_GPU_CHECK_EMULATED") == "1", seconds)
    if kit.tiny != kit.about["emulated"]:
        print("run: HD_GPU_CHECK_EMULATED=1 and bundles of emulated programs go together", file=sys.stderr)
        return 2
    for name in set(tests or []) - set(kit.about["tests"]):
        parser.error(f"the bundle has no test {name}")
    kit.about["tests"] = {name: suite for name, suite in kit.about["tests"].items() if not tests or name in tests}
    machine(kit, found)
    take_steps(kit, steps)
    return summarise(kit)


if __name__ == "__main__":
    sys.exit(main())
