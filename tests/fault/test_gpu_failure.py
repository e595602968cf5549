#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU that fails, at any moment of a run: every rank ends within a second, with one message that names CUDA's
error and the tasks in flight, also when no call of CUDA returns. On the emulation, whose calls return an error
that stays from a given one on (tests/emulation/emulation.h)."""

import glob
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import processes  # noqa: E402
from processes import ROOT, PATIENCE, check, check_left, end, environment, errors, sets, start  # noqa: E402
from runner import Scratch, find_emulated, result  # noqa: E402

SMALL = dict(policy__cuda="true", world__shards=2, env__stop_value="1e9", max_train_iter=6, env__collector_env_num=2,
             policy__eval__evaluator__eval_freq=3, env__evaluator_env_num=1, env__n_evaluator_episode=1,
             policy__collect__n_sample=16, policy__learn__batch_size=4, runtime__checkpoint_interval_s=0.01,
             policy__model__encoder_hidden_size_list="[8,8]", runtime__heartbeat_timeout_s=60)
RUNS = {"dqn": dict(SMALL, policy__learn__update_per_collect=2),
        "ppo": dict(SMALL, policy__model__actor_head_hidden_size=0, policy__model__critic_head_hidden_size=0)}
ILLEGAL = "an illegal memory access was encountered"
NEVER = 10 ** 9
UNSEEN = 24  # the last calls: StarPU and NCCL destroy their streams and events without a look at the results
FIRST = 5  # the call before which CUDA has not been asked for more than the number of GPUs
TASK = r"[a-z_()]+ of iteration \d+(?: \(shard \d+\))? on GPU \d"
HINT = "--set runtime.executor=sequential names the task at fault"


def run(scratch, name, at, kind, keys, **env):
    """(exit code, stderr, seconds from the fault to the end of all ranks; None: the run ended before it)"""
    ranks = 2 if kind == "ranks" else 1
    env = environment(HD_EMULATED_DEVICES=ranks, HD_EMULATED_FAULT=at, HD_EMULATED_FAULT_DEVICE=ranks - 1, **env)
    command = ["launch", "--nproc-per-node", "2"] if ranks > 1 else ["run"]
    process = start(*command, os.path.join(ROOT, f"configs/cartpole_{name}_ddp.yaml"), "--quiet", "--dir",
                    scratch("run"), *sets(**keys, runtime__executor="sequential" if kind == "sequential" else "starpu"),
                    env=env)
    code, text, _ = end(process, 60)
    failed = re.search(r"calls fail from ([\d.]+) s on", text)
    return code, text, time.monotonic() - float(failed.group(1)) if failed else None


def count_calls(text):
    return max(int(n) for n in re.findall(r"emulation: (\d+) calls", text))


def last_position(scratch, name, kind):
    code, text, _ = run(scratch, name, NEVER, kind, RUNS[name])
    check(code == 0, text)
    shutil.rmtree(scratch("run"))
    return count_calls(text) - UNSEEN


def check_end(case, scratch, kind, code, text, seconds):
    """Returns whether tasks were in flight."""
    told = [line for line in errors(text) if "failed with exit code 1" not in line]
    case = f"{case}: exit code {code} after {seconds:.2f} s: {text}"
    check(code == 1 and len(told) == 1, case)
    check("error: GPU " in told[0], case)
    check(ILLEGAL in told[0] or "cudaErrorIllegalAddress" in told[0], case)
    tasks = re.findall(TASK, told[0])
    check(tasks or "no task was in flight" in told[0], case)
    check((HINT in told[0]) == (len(tasks) > 0 and kind != "sequential"), case)
    check(kind != "sequential" or len(tasks) <= 1, case)
    check(seconds < 1 * PATIENCE, case)
    check_record(case, scratch, told[0].split("GPU ", 1)[1])
    return len(tasks) > 0


def check_record(case, scratch, sentence):
    """result.json says it, if there is a run directory; unless the results were there before."""
    if not os.path.exists(scratch("run")):
        return
    left = result(scratch("run"))
    if left["reason"] != "limit":
        check(left["reason"] == "failed", f"{case}: {left}")
        # A rank that still waits for the others to start is ended by the launcher, which writes for it.
        by_launcher = re.fullmatch(r"rank 1 \(pid \d+\) failed with exit code 1", left["detail"])
        check(sentence in left["detail"] or (by_launcher and left["env_step"] == 0), f"{case}: {left}")
        check(by_launcher or not os.path.exists(scratch("run/.reserve")), f"{case}: .reserve is left")


def check_positions(scratch, name, kind, n):
    last, named, slowest = last_position(scratch, name, kind), 0, 0
    for k in range(n):
        at = FIRST + k * (last - FIRST) // (n - 1)
        code, text, seconds = run(scratch, name, at, kind, RUNS[name])
        while code == 0 and count_calls(text) - UNSEEN < at:  # checkpoints, begun by the clock, are not always as many
            at = count_calls(text) - UNSEEN
            shutil.rmtree(scratch("run"))
            code, text, seconds = run(scratch, name, at, kind, RUNS[name])
        named += check_end(f"{name} {kind}, call {at}", scratch, kind, code, text, seconds)
        for part in glob.glob(scratch("run/ckpt/state/iteration_*.part")):
            shutil.rmtree(part)  # a checkpoint that was being written, as after a kill; the next start removes it
        check_left(scratch("run"), [])
        slowest = max(slowest, seconds)
        shutil.rmtree(scratch("run"), ignore_errors=True)
    check(named * 3 >= n, f"{name} {kind}: only {named} of {n} ends named tasks")
    print(f"{name} {kind}: failed after {n} of {last} calls; {named} ends named tasks; {slowest:.2f} s at most")


def check_stuck(scratch, name, kind):
    """Whoever calls CUDA never returns from it, but for the watch."""
    at = last_position(scratch, name, kind) * 3 // 5
    code, text, seconds = run(scratch, name, at, kind, RUNS[name], HD_EMULATED_FAULT_HANGS=1)
    check_end(f"{name} {kind}, stuck", scratch, kind, code, text, seconds)
    print(f"{name} {kind}, stuck in CUDA: over after {seconds:.2f} s")


def check_busy(scratch):
    """GPUs that other programs keep to themselves: a run that needs one says so, and a run on CPUs does not ask."""
    for cuda, code in (("true", 1), ("false", 0)):
        process = start("run", processes.CONFIG, "--quiet", "--dir", scratch(cuda), *sets(max_train_iter=5, policy__cuda=cuda),
                        env=environment(HD_EMULATED_BUSY=1, HD_EMULATED_FAULT=NEVER))
        ended, text, _ = end(process, 60)
        check(ended == code and ("busy or unavailable" in text) == (code > 0), f"policy.cuda {cuda}: {ended} {text}")
    check(count_calls(text) == 0, f"calls of CUDA with policy.cuda false: {text}")
    print("a busy GPU")


def main():
    processes.RUNNER = find_emulated()
    with Scratch() as scratch:
        check_busy(scratch)
    for name in RUNS:
        for kind, n in (("starpu", 10), ("sequential", 5), ("ranks", 5)):
            with Scratch() as scratch:
                check_positions(scratch, name, kind, n)
    for kind in ("starpu", "sequential", "ranks"):
        with Scratch() as scratch:
            check_stuck(scratch, "dqn", kind)


main()
