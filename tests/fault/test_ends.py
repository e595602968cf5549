#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every end of a run leaves result.json and report.html that say how and why; a run that has ended is not
touched again; restarts pause."""

import datetime
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import (CONFIG, ENDLESS, RUNNER, check, end, environment, free_port, sets, start,  # noqa: E402
                       start_endless, wait_for_ranks)
from runner import SECRET, Scratch, call, result, train, wait_for_updates  # noqa: E402


def check_result(directory, reason, detail, how):
    """The fields of any end; `detail` is a pattern."""
    check(os.path.exists(os.path.join(directory, "result.json")), f"{how}: no result.json")
    found = result(directory)
    check(found["reason"] == reason and re.search(detail, found["detail"] or ""), f"{how}: {found}")
    check(found["command"].startswith(RUNNER) and CONFIG in found["command"], f"{how}: {found['command']}")
    check(found["seed"] == 0 and found["env"] == "cartpole" and found["version"] and found["host"], f"{how}: {found}")
    times = [datetime.datetime.fromisoformat(found[key]) for key in ("start_time", "end_time")]
    check(times[0] <= times[1] and times[1].tzinfo, f"{how}: {times}")
    with open(os.path.join(directory, "report.html"), encoding="utf-8") as file:
        check(f'"reason":"{reason}"' in file.read(), f"{how}: report.html")
    return found


def check_orders():
    with Scratch() as scratch:
        train(scratch("solved"))
        check(check_result(scratch("solved"), "solved", r"^env\.stop_value$", "solved")["stop"], "solved")
        done = call("run", CONFIG, "--dir", scratch("limit"), *sets(max_train_iter=10))
        check("stopped after 10 updates: max_train_iter;" in done.stderr, done.stderr)
        check_result(scratch("limit"), "limit", "^max_train_iter$", "limit")
        train(scratch("steps"), max_env_step=300)
        check_result(scratch("steps"), "limit", "^max_env_step$", "limit")


def check_signals():
    for number, targets in ((signal.SIGINT, ("alone", "launcher")), (signal.SIGTERM, ("alone", 1)),
                            (signal.SIGHUP, ("alone", 0)), (signal.SIGKILL, (0, 1))):
        for who in targets:
            how = f"{number.name} to {who}"
            with Scratch() as scratch:
                run = start_endless(scratch("run"), ranks=1 if who == "alone" else 2)
                if who != "alone":
                    pids = wait_for_ranks(run, scratch("run"))
                wait_for_updates(run, scratch("run"))
                os.kill(run.pid if who in ("alone", "launcher") else pids[who], number)
                text = end(run, 10)[1]
                if number == signal.SIGKILL:
                    found = check_result(scratch("run"), "failed",
                                         rf"rank {who} \(pid \d+\) was killed by signal 9 \(Killed\)", how)
                else:
                    found = check_result(scratch("run"), "stopped", f"^{number.name}$", f"{how}: {text}")
                check(found["train_iter"] > 0, f"{how}: {found}")
    print("every signal leaves its name and how far the run came")


def check_survivor():
    """Without a launcher, rank 1 writes for rank 0."""
    with Scratch() as scratch:
        port = free_port()
        ranks = [start("run", CONFIG, "--dir", scratch("run"), "--quiet", *ENDLESS,
                       env=environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                                       HEDDLE_SECRET=SECRET))
                 for rank in (0, 1)]
        while not os.path.exists(scratch("run/log/evaluator")):
            time.sleep(0.01)
        ranks[0].kill()
        code, text, _ = end(ranks[1], 10)
        check(code == 1, text)
        check_result(scratch("run"), "failed", r"rank 0 .*died", "survivor")
        ranks[0].communicate()
    print("a survivor writes for rank 0")


def check_ended():
    """--resume leaves runs that have ended, other runs and other folders alone."""
    def content():
        return {name: os.stat(os.path.join(at, name)).st_mtime_ns
                for at, _, names in os.walk(directory) for name in names}

    with Scratch() as scratch:
        directory = scratch("run")
        bits = train(directory)["param_hash"]
        before = content()
        for command in (["run"], ["launch", "--nproc-per-node", "2"]):
            done = call(*command, CONFIG, "--dir", directory, "--resume")
            check(f"{directory} has ended (solved): nothing to do" in done.stderr, done.stderr)
            done = call(*command, CONFIG, "--resume", directory, *sets(policy__nstep=3), expect=2)
            check("policy.nstep: 1 in its total_config.yaml, 3 now" in done.stderr and
                  "nothing was touched" in done.stderr, done.stderr)
        call("run", CONFIG, "--resume", directory, *sets(max_train_iter=10))  # reached as well
        done = call("run", CONFIG, "--dir", directory, expect=2)
        check(f"{directory} is a run (solved): --resume goes on with it, or name another --dir" in done.stderr,
              done.stderr)
        check(content() == before and result(directory)["param_hash"] == bits, "an ended run was touched")

        directory = scratch("foreign")
        os.mkdir(directory)
        for name in ("report.html", "result.json"):
            with open(os.path.join(directory, name), "w", encoding="ascii") as file:
                file.write("mine")
        before = content()
        done = call("run", CONFIG, "--resume", directory, expect=2)
        check("is not the directory of a run" in done.stderr and content() == before, done.stderr)
        call("run", CONFIG, "--resume", "--dir", scratch("new"), *sets(max_train_iter=10))
        os.mkdir(scratch("empty"))
        call("run", CONFIG, "--resume", scratch("empty"), *sets(max_train_iter=10))

        limits = dict(max_train_iter=40, env__stop_value="1e9")
        train(scratch("longer"), max_train_iter=20, env__stop_value="1e9")
        longer = train(scratch("longer"), "--resume", **limits)
        check(longer["param_hash"] == train(scratch("once"), **limits)["param_hash"], "a larger limit")
        os.remove(scratch("longer/result.json"))
        done = call("run", CONFIG, "--dir", scratch("longer"), expect=2)
        check("is a run (unfinished)" in done.stderr, done.stderr)
    print("--resume leaves alone what has ended and what is not this run")


def check_restarts():
    """A rank that is killed at its start, again and again: restarts pause, and say where they begin."""
    with Scratch() as scratch:
        run = start("launch", "--nproc-per-node", "2", "--max-restarts", "2", CONFIG, "--dir", scratch("run"),
                    "--quiet", *ENDLESS)
        begin = time.monotonic()
        for victim in (1, 0, 1):
            pid = wait_for_ranks(run, scratch("run"))[victim]
            os.kill(pid, signal.SIGKILL)
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.01)
        code, text, _ = end(run, 10)
        check(code == 1 and time.monotonic() - begin > 1.5, text)
        for attempt, pause in ((1, 0.5), (2, 1.0)):
            check(f"restart {attempt} of 2 in {pause} s: all ranks begin again from the start" in text, text)
        check_result(scratch("run"), "failed", r"rank 1 \(pid \d+\) was killed", "restarts")
    print("restarts pause, and begin from the start where there is no checkpoint")


def check_old_results():
    """A result of a version before: fewer fields."""
    with Scratch() as scratch:
        directory = scratch("run")
        found = train(directory, max_train_iter=20)
        for key in ("detail", "seed", "env", "command", "version", "host", "start_time", "end_time"):
            del found[key]
        with open(os.path.join(directory, "result.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)
        call("report", directory)
        shown = call("compare", directory, directory, "--out", scratch("page.html")).stdout
        check("the same bits" in shown and " limit " in shown, shown)
        call("run", CONFIG, "--resume", directory, *sets(max_train_iter=20))
    print("results of a version before are read")


def main():
    check_orders()
    check_signals()
    check_survivor()
    check_ended()
    check_restarts()
    check_old_results()


main()
