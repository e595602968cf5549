#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python workers of Gymnasium's environments that are killed, hang or raise at random moments: each is told
within 5 s with env, step and seed, nothing is left, and a run that goes on ends in the same bits. A run that is
killed leaves no workers, and nothing that these started. Where one rank of a node fails, ranks of another node tell
the same. HD_KILLS=n, HD_HANGS=n, HD_RAISES=n: how many (20, 10, 10 with HD_WHOLE=1)."""

import contextlib
import os
import random
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import build_library, check, children, end, errors, is_running, sets, start, wait_for_training  # noqa: E402
from runner import (PATIENCE, ROOT, SECRET, Scratch, call, check_no_orphans, draw_seed,  # noqa: E402
                    environment, free_port, reduce, result, skip, train, wait_for_updates)

SEED = draw_seed()
PYTHON = os.path.join(ROOT, "build/plugins/gymnasium")
CONFIG = os.path.join(ROOT, "configs/gym_cartpole_dqn.yaml")
ENDLESS = sets(env__stop_value="1e9", max_train_iter=10**9, env__options__python=PYTHON, env__options__worker=2,
               world__shards=1)
# Another env than the config's, whose spaces are asked for.
WALK = sets(env__options="{}", env__options__python=PYTHON, env__env_id="gymnasium_envs:Walk-v0", world__shards=1,
            env__options__path=os.path.join(ROOT, "tests/kernels/envs"),
            policy__model__obs_shape=3, policy__model__action_shape=4, env__stop_value="1e9", max_train_iter=10**9)
# A rank that is slow to tell rank 0 of its failure.
SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
enum { MAGIC = 0x4c444548, FAIL = 7 };
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    if (bytes >= 8 && *(const uint32_t *)data == MAGIC && ((const uint16_t *)data)[3] == FAIL)
        sleep(5);
    return next(fd, data, bytes, flags);
}
"""
# Inherited by all that this test starts, and by nothing else.
MARK = f"HD_TEST_WORKERS={os.getpid()}"
PLACE = r"env \d+, step \d+ from seed \d+: "


def list_workers():
    """Ids of the processes of this test that run our program for Python, whoever their parent is."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as command, open(f"/proc/{name}/environ", "rb") as variables:
                if b"heddle_gymnasium.py" in command.read() and MARK.encode() in variables.read().split(b"\0"):
                    found.add(int(name))
        except OSError:
            pass
    return {pid for pid in found if is_running(pid)}


def describes(pid):
    """Whether a process only describes the env at the start and ends then: it is worker -1."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"-1" in file.read().split(b"\0")
    return True


def wait_for_workers(run):
    until = time.monotonic() + 20
    while not (workers := [pid for pid in children(run) if pid in list_workers() and not describes(pid)]):
        check(time.monotonic() < until and run.poll() is None, "no workers were started")
        time.sleep(0.002)
    return workers


def check_end(run, pattern, seconds=5):
    code, text, took = end(run, seconds)
    check(code == 1 and len(errors(text)) == 1, f"exit code {code}: {text}")
    check(re.search(pattern, errors(text)[0]), f"not told as {pattern}: {text}")
    check(not list_workers(), "a worker is left")
    check_no_orphans()
    return text, took


def kill_one(rng):
    with Scratch() as scratch:
        run = start("run", CONFIG, "--dir", scratch("run"), "--quiet", *ENDLESS)
        wait_for_workers(run)
        time.sleep(rng.uniform(0, 2))
        victim = rng.choice(wait_for_workers(run))
        os.kill(victim, signal.SIGKILL)
        # One that dies before it has made its envs has none to name.
        pattern = f"CartPole-v1: (?:{PLACE})?worker process {victim} was ended by signal 9"
        return check_end(run, pattern)[1]


def fail_one(rng, failure, pattern, **keys):
    with Scratch() as scratch:
        run = start("run", CONFIG, "--dir", scratch("run"), "--quiet", *WALK,
                    *sets(env__options__kwargs__failure=failure, env__options__kwargs__only=scratch("now"), **keys))
        wait_for_workers(run)
        time.sleep(rng.uniform(0, 2))
        with open(scratch("now"), "w", encoding="ascii"):
            pass
        text, took = check_end(run, f"gymnasium_envs:Walk-v0: {PLACE}{pattern}")
        check("\33" not in text, f"a terminal would obey: {text}")
        check("gymnasium_envs.py" in text and "in fail\n" in text, f"no traceback: {text}")
        return took


def check_failures():
    rng = random.Random(SEED)
    for name, count, one in (
            ("killed", os.environ.get("HD_KILLS", reduce(20)), lambda: kill_one(rng)),
            ("hung", os.environ.get("HD_HANGS", reduce(10)),
             lambda: fail_one(rng, "hang", r"worker process \d+ gave no answer for 1 s", env__options__timeout_s=1)),
            ("raised", os.environ.get("HD_RAISES", reduce(10)),
             lambda: fail_one(rng, "raise long", r"Python raised ValueError at gymnasium_envs.py:\d+: the walk fell over\?\]0;x\? and"))):
        times = [one() for _ in range(int(count))]
        print(f"{len(times)} workers {name} (HD_FAULT_SEED={SEED}): told within {max(times, default=0):.2f} s")


def check_run_killed():
    """Workers go with their run, also one that is asleep or stopped in the middle of a step."""
    with Scratch() as scratch:
        run = start("run", CONFIG, "--dir", scratch("run"), "--quiet", *ENDLESS)
        wait_for_workers(run)
        time.sleep(1)
        workers = wait_for_workers(run)  # what was there a second ago may have been a process on its way to become one
        os.kill(workers[0], signal.SIGSTOP)
        run.kill()
        run.wait()
        with contextlib.suppress(ProcessLookupError):  # the kernel may have continued it already
            os.kill(workers[0], signal.SIGCONT)
        run.communicate()
        until = time.monotonic() + 2 * PATIENCE
        while list_workers():
            check(time.monotonic() < until, "workers outlive their run")
            time.sleep(0.01)
    print("workers go away with their run")


def check_leavings():
    """Processes that an env has left are gone after the run, also where the run, the worker or its keeper is killed."""
    leaving = sets(env__options__path=os.path.join(ROOT, "tests/kernels/envs"),
                   env__options__wrappers="['gymnasium_envs:Leaving']")
    for victim in ("none", "run", "worker", "keeper"):
        with Scratch() as scratch:
            run = start("run", CONFIG, "--dir", scratch("run"), "--quiet", *ENDLESS, *leaving)
            wait_for_updates(run, scratch("run"))
            keeper = wait_for_workers(run)[0]
            with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as file:
                worker = int(file.read().split()[0])
            pid, number = {"none": (run.pid, signal.SIGTERM), "run": (run.pid, signal.SIGKILL),
                           "worker": (worker, signal.SIGKILL), "keeper": (keeper, signal.SIGTERM)}[victim]
            os.kill(pid, number)
            code = end(run, PATIENCE)[0]
            check(code == {"none": 75, "run": 128 + signal.SIGKILL}.get(victim, 1), f"{victim}: exit code {code}")
            until = time.monotonic() + PATIENCE
            while list_workers():
                check(time.monotonic() < until, f"{victim} killed: {list_workers()} are left")
                time.sleep(0.01)
    print("nothing is left of what environments started")


def check_other_host():
    """The other rank of its node leaves long before the rank that failed; the other node tells the cause all the same,
    and not that a connection broke."""
    with Scratch() as scratch:
        library, port, runs = build_library(scratch("slow.so"), SLOW), free_port(), []
        for rank in range(4):
            os.mkdir(scratch(str(rank)))
            env = environment(RANK=rank, WORLD_SIZE=4, LOCAL_RANK=rank % 2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                              MASTER_PORT=port, HEDDLE_SECRET=SECRET, LD_PRELOAD=library if rank == 1 else "")
            runs.append(start("run", CONFIG, "--dir", scratch("run"), "--quiet", *WALK,
                              *sets(world__shards=4, runtime__transport="tcp", env__options__kwargs__failure="raise",
                                    env__options__kwargs__only="now"), cwd=scratch(str(rank)), env=env))
        wait_for_training(runs[0], scratch("run"))
        with open(scratch("1/now"), "w", encoding="ascii"):
            pass
        for rank, (code, text, _) in enumerate([end(run, 10) for run in runs]):
            check(code == 1 and "the walk fell over" in text and "broke" not in text, f"rank {rank}: {text}")
    print("the other node tells the cause")


def check_slow():
    """Each step is progress, also for a rank that waits: an evaluation or a collect that lasts for a multiple of
    watchdog_s is no hang."""
    keys = {"config": CONFIG, "ranks": 2, "world__shards": 2, "env__options__python": PYTHON, "env__stop_value": "1e9",
            "env__options__path": os.path.join(ROOT, "tests/kernels/envs"), "max_train_iter": 2,
            "env__evaluator_env_num": 1, "env__n_evaluator_episode": 2, "policy__eval__at_limit": "false",
            "env__collector_env_num": 1, "policy__collect__n_sample": 64, "runtime__watchdog_s": 7}
    for side, seconds in (("evaluator", 0.5), ("collector", 0.15)):
        with Scratch() as scratch:
            slow = "{wrappers: [{'gymnasium_envs:Slow': {seconds: %g}}]}" % seconds
            run = train(scratch("run"), **keys, **{f"env__options__{side}": slow})
            check(run["reason"] == "limit", f"{side}: {run}")
    print("tasks of slow environments live")


def check_resumed():
    """A worker that is killed costs no bit: the run goes on from its checkpoint."""
    keys = {"env__stop_value": "1e9", "env__options__python": PYTHON, "world__shards": 1,
            "runtime__checkpoint_interval_s": 0.5}
    with Scratch() as scratch:
        run = start("run", CONFIG, "--dir", scratch("run"), "--quiet", *sets(**keys, max_train_iter=10**9))
        until = time.monotonic() + 60
        while not os.path.islink(scratch("run/ckpt/state/latest")):
            check(time.monotonic() < until and run.poll() is None, "there is no checkpoint")
            time.sleep(0.01)
        os.kill(wait_for_workers(run)[0], signal.SIGKILL)
        check(end(run, 5)[0] == 1, "the run did not fail")
        keys["max_train_iter"] = result(scratch("run"))["train_iter"] + 200
        call("run", CONFIG, "--dir", scratch("run"), "--resume", *sets(**keys))
        found, wanted = result(scratch("run"))["param_hash"], train(scratch("whole"), config=CONFIG, **keys)["param_hash"]
        check(found == wanted, f"the resumed run ends in {found}, not {wanted}")
    print(f"a run whose worker was killed ends in {found} after all")


def main():
    if not os.path.exists(os.path.join(PYTHON, "bin/python")):
        skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
    os.environ.update([MARK.split("=")])
    check_failures()
    check_run_killed()
    check_leavings()
    check_other_host()
    check_slow()
    check_resumed()


main()
