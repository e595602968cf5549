#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code that fails is named, with the task and the environment in which it runs: plug-ins that crash, hang or
give numbers that are not finite, and a data set that is cut while it is read."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import (CONFIG, ROOT, check, end, environment, errors, free_port, sets, start)  # noqa: E402
from runner import SECRET, Scratch, call, result, skip, train  # noqa: E402

CORRIDOR = sets(env__type="corridor", env__options__cells=7, policy__model__obs_shape=7, env__stop_value=1e9,
                max_train_iter=10**9)
STEP = "bool late = ++walk->steps"
REWARD = "outcome->reward[i] ="
SHOW = "show(group, i, (float *)outcome->obs + i * group->cells);"
SANITIZED = os.environ.get("ASAN_OPTIONS") or os.environ.get("TSAN_OPTIONS")


def build(scratch, *changes):
    """The example environment, changed."""
    if not shutil.which("cc"):
        skip("there is no compiler `cc`")
    with open(os.path.join(ROOT, "kernels/envs/example/corridor.c"), encoding="utf-8") as file:
        source = file.read()
    for old, new in changes:
        check(old in source, "the example has changed")
        source = source.replace(old, new, 1)
    with open(scratch("changed.c"), "w", encoding="utf-8") as out:
        out.write("#include <fcntl.h>\n#include <math.h>\n#include <signal.h>\n#include <unistd.h>\nstatic int n;\n" + source)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-I", ROOT, "-o", scratch("heddle_env_corridor.so"),
                    scratch("changed.c")], check=True)
    return environment(HEDDLE_PLUGINS=scratch.path)


def hang(when, marker):
    """A change of the example environment: from a moment on, a step does not return, and the file `marker` exists."""
    return STEP, f'while ({when})\n n = 3000, close(creat("{marker}", 0600));\n{STEP}'


def wait_for(name, *runs):
    while not os.path.exists(name):
        for run in runs:
            check(run.poll() is None, f"the run ended early: {run.returncode}")
        time.sleep(0.01)


def play(scratch, env, *options, ranks=1):
    command = ["run"] if ranks == 1 else ["launch", "--nproc-per-node", str(ranks)]
    run = start(*command, CONFIG, "--dir", scratch("run"), "--quiet", *CORRIDOR, *options, env=env)
    return end(run, 30)


def check_crashes():
    if SANITIZED:
        return  # the sanitizer reports them
    for statement, number, said in (("*(volatile int *)0x10 = n;", signal.SIGSEGV, " at address 0x10"),
                                    ("raise(SIGFPE);", signal.SIGFPE, ""),
                                    ("raise(SIGILL);", signal.SIGILL, ""),
                                    ("__builtin_trap();", signal.SIGILL, " at address 0x"),
                                    ("kill(getpid(), SIGBUS); pause();", signal.SIGBUS, ", sent by process "),
                                    ("raise(SIGABRT);", signal.SIGABRT, "")):
        for ranks in (1, 2):
            with Scratch() as scratch:
                env = build(scratch, (STEP, f"if (++n > 300) {{ {statement} }}\n{STEP}"))
                code, text, _ = play(scratch, env, ranks=ranks)
                check(code == (128 + number if ranks == 1 else 1), f"{statement}: exit code {code}: {text}")
                plugin = re.escape(scratch("heddle_env_corridor.so"))
                who = "" if ranks == 1 else r"\[rank [01]\] "
                named = re.search(rf"^{who}error: task (collect|evaluate) of iteration \d+(, shard \d+)?, in "
                                  rf"environment corridor \(plug-in {plugin}\): signal {int(number)} \(.*\){said}",
                                  text, re.M)
                if "kill(" in statement:  # any thread may get it
                    named = re.search(rf"error: .*: signal {int(number)} \(Bus error\){said}", text)
                check(named, f"{statement}: {text}")
    print(f"crashes are named: {named.group(0)}")


def check_numbers():
    for old, new, said in ((REWARD, f"{REWARD} ++n > 400 ? NAN :", "gave the reward nan"),
                           (REWARD, f"{REWARD} ++n > 400 ? -INFINITY :", "gave the reward -inf"),
                           (SHOW, f"{SHOW}\n ((float *)outcome->obs)[i * group->cells] = ++n > 400 ? NAN : 0;",
                            "gave an observation that is not finite")):
        with Scratch() as scratch:
            env = build(scratch, (old, new))
            code, text, _ = play(scratch, env)
            check(code == 1, f"{new}: {code}: {text}")
            named = re.search(rf"task (collect|evaluate) of .* environment corridor \(plug-in \S+\)( \(shard \d+\))?: "
                              rf"env \d+ {said} at step \d+ from seed \d+", text)
            check(named and len(errors(text)) == 1, f"{new}: {text}")
            found = result(scratch("run"))
            check(found["reason"] == "failed" and said in found["detail"], f"{found}")
    print(f"numbers that are not finite are named: {named.group(0)}")


def check_hangs():
    """A task that never returns, on either rank: one report, which names it and what the others wait for."""
    for ranks in (1, 2):
        with Scratch() as scratch:
            env = build(scratch, hang("++n > 2000", scratch("hangs")))
            code, text, seconds = play(scratch, env, *sets(runtime__watchdog_s=6, runtime__workers=1), ranks=ranks)
            check(code == 3, f"{ranks} ranks: {code}: {text}")
            reports = [line for line in errors(text) if "error: no progress for" in line]  # others repeat it
            check(len(reports) == 1, f"{ranks} ranks: {text}")
            # By the rank that reports, or by the other when it is ended.
            check(re.search(r"(rank \d|in no collective,) runs (collect|evaluate) of iteration \d+( \(shard \d+\))? since [\d.]+ s, at env \d+, step \d+",
                            text),
                  text)
            check(result(scratch("run"))["reason"] == "failed", f"{result(scratch('run'))}")
    print(f"a task that never returns, after {seconds:.1f} s:\n  {reports[0]}")


def check_stop():
    """SIGTERM while a task does not return: no failure."""
    for ranks in (1, 2):
        with Scratch() as scratch:
            env = build(scratch, hang("++n > 2000", scratch("hangs")))
            run = start("launch", "--nproc-per-node", str(ranks), CONFIG, "--dir", scratch("run"), "--quiet", *CORRIDOR,
                        *sets(runtime__sigterm_grace_s=1, runtime__workers=1), env=env)
            wait_for(scratch("hangs"), run)
            run.send_signal(signal.SIGTERM)
            code, text, seconds = end(run, 6)
            check(code == 75 and not errors(text), f"{ranks} ranks: {code}: {text}")
            found = result(scratch("run"))
            check((found["reason"], found["detail"]) == ("stopped", "SIGTERM"), f"{found}")
    print(f"SIGTERM ends a run whose task does not return, after {seconds:.1f} s")


def check_orphan():
    """SIGTERM to a rank whose task does not return and that has lost the other one."""
    with Scratch() as scratch:
        env = build(scratch, hang("++n > 2000 && *getenv(\"RANK\") == '1'", scratch("hangs")))
        more = dict(WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), HEDDLE_SECRET=SECRET)
        runs = [start("run", CONFIG, "--dir", scratch("run"), "--quiet", *CORRIDOR,
                      *sets(runtime__sigterm_grace_s=1, runtime__workers=1),
                      env=dict(env, **{key: str(value) for key, value in dict(more, RANK=rank, LOCAL_RANK=rank).items()}))
                for rank in range(2)]
        wait_for(scratch("hangs"), *runs)
        runs[0].kill()
        time.sleep(1)
        runs[1].send_signal(signal.SIGTERM)
        code, text, seconds = end(runs[1], 6)
        check(code == 1 and "rank 0 died" in text and "a task does not return" in text, f"{code}: {text}")
        end(runs[0], 6)
    print(f"SIGTERM ends a rank that has lost another and whose task does not return, after {seconds:.1f} s")


def check_cut():
    """A data set that somebody cuts while it is mapped."""
    with Scratch() as scratch:
        train(scratch("player"), max_train_iter=20)
        call("record", CONFIG, "--weights", scratch("player/ckpt/best/policy.safetensors"), "--transitions", "20000",
             "--out", scratch("data"), "--quiet")
        config = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
        run = start("run", config, "--dir", scratch("run"), "--quiet",
                    *sets(policy__collect__data_path=scratch("data"), env__stop_value=1e9, max_train_iter=10**9,
                          policy__learn__train_epoch=10**6))
        while not os.path.exists(scratch("run/log/serial")):
            time.sleep(0.01)
        time.sleep(0.5)
        name = os.path.join(scratch("data"), os.listdir(scratch("data"))[0])
        os.truncate(name, 4096)
        code, text, _ = end(run, 20)
        check(SANITIZED or code == 128 + signal.SIGBUS, f"{code}: {text}")
        check(SANITIZED or f"{name} was cut while it was read" in text, text)
    print("a data set that is cut is named")


check_crashes()
check_numbers()
check_hangs()
check_orphan()
check_stop()
check_cut()
