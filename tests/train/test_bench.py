#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner bench: one table, lines of JSON, equal parameters where they must be equal, mistakes told before
anything starts, an end on Ctrl-C, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, Scratch, call, check, environment  # noqa: E402

SMALL = ("--updates", "40", "--warmup", "20", "--repeats", "2")


def bench(scratch, *arguments, expect=0):
    """Runs in an empty directory; returns the table's lines, stderr and what the directory holds."""
    work = scratch(f"work{len(os.listdir(scratch.path))}")
    os.mkdir(work)
    os.makedirs(scratch("tmp"), exist_ok=True)
    done = call("bench", CONFIG, *arguments, cwd=work, env=environment(TMPDIR=scratch("tmp")),
                expect=expect)
    left = [name for name in os.listdir(scratch("tmp")) if name.startswith("heddle-bench")]
    check(not left, f"left behind: {left}")
    return done.stdout.splitlines(), done.stderr, work


def rows(table):
    """{strategy: (lag, updates/s, param_hash)}"""
    begin = next(i for i, line in enumerate(table) if line.startswith("strategy "))
    found = {}
    for line in table[begin + 1:table.index("", begin)]:
        name, lag, rate = line.split()[:3]
        found[name] = (int(lag), float(rate), re.search(r"\b[0-9a-f]{16}\b", line)[0])
    return found


def check_table(scratch):
    table, stderr, work = bench(scratch, "--strategies", "serial,pipelined", *SMALL,
                                "--json", "lines.jsonl", "--ranks", "2", "--seed", "3", "--set", "world.shards=2",
                                "--set", "policy.other.eps.start=0.1", "--set", "policy.learn.learning_rate=0.01")
    found = rows(table)
    check(set(found) == {"serial", "pipelined"}, f"{table}")
    check((found["serial"][0], found["pipelined"][0]) == (0, 1), f"lags: {table}")
    check(found["serial"][2] != found["pipelined"][2], "a lag that changes nothing")
    check("2 ranks x 1 worker, 2 shards; 40 updates measured after 20" in table[0], table[0])
    check(re.findall(r"run \d of \d: (\w+)", stderr) == ["serial", "pipelined", "pipelined", "serial"],
          f"the order: {stderr}")
    check(os.listdir(work) == ["lines.jsonl"], f"left behind: {os.listdir(work)}")

    with open(os.path.join(work, "lines.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    check([line["strategy"] for line in lines] == ["serial", "pipelined"], f"{lines}")
    for line in lines:
        rate = line["updates_per_s"]
        check(0 < rate["min"] <= rate["median"] <= rate["max"], f"{rate}")
        check(abs(line["env_steps_per_s"]["median"] / rate["median"] - 2 * 8 / 5) < 1e-6,
              f"16 env steps for 5 updates: {line}")
        check(0 < line["busy"]["median"] <= 1 and line["exposed"]["median"] > 0, f"{line}")
        check({"adam", "loss_grad", "collect"} <= set(line["tasks"]), f"{line['tasks']}")
        check("evaluate" not in line["tasks"], "evaluations are left out")
        check((line["ranks"], line["updates"], line["repeats"]) == (2, 40, 2), f"{line}")
        check(line["sets"][0] == "seed=3" and line["machine"] and "commit" in line, f"{line}")
        check(line["param_hash"] == found[line["strategy"]][2], "param_hash")


def check_equal_without_lag(scratch):
    """A strategy in a file of one's own; every strategy without lags ends as the serial one."""
    path = scratch("small_parts.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("bucket_mb: 0.02\nbatch_buffers: 3\n")
    table, _, work = bench(scratch, "--strategies", f"serial,{path}", *SMALL, "--quiet", "--evaluate",
                           "--trace", "--json", scratch("evaluated.jsonl"))
    found = rows(table)
    check(found["serial"][2] == found[path][2], f"lag 0, other parameters: {table}")
    with open(scratch("evaluated.jsonl"), encoding="utf-8") as file:
        check(json.loads(file.readline())["tasks"]["evaluate"] > 0, "--evaluate")
    check(sorted(os.listdir(work)) == ["trace_serial.json", "trace_small_parts.json"],
          f"{os.listdir(work)}")
    with open(os.path.join(work, "trace_small_parts.json"), encoding="utf-8") as file:
        check(len(json.load(file)["traceEvents"]) > 100, "the trace is empty")


def check_whole_iterations(scratch):
    """An update is asked for where an iteration makes five: it is measured with its four fellows."""
    table, _, _ = bench(scratch, "--strategies", "serial", "--updates", "1", "--warmup", "1",
                        "--repeats", "1")
    check("5 updates measured" in table[0], table[0])


def check_mistakes(scratch):
    mistakes = [
        ([], "missing --strategies"),
        (["--strategies", "serial,pipelind"], "did you mean 'pipelined.yaml'?"),
        (["--strategies", "serial,"], "name is missing"),
        (["--strategy", "serial"], "did you mean '--strategies'?"),
        (["--strategies", "serial", "--updates", "0"], "--updates: expected"),
        (["--strategies", "serial", "--set", "policy.learn.batch_sise=3"], "batch_size"),
        (["--strategies", "serial", "--ranks", "3", "--set", "world.shards=2"], "1, 2"),
    ]
    for arguments, expected in mistakes:
        table, stderr, work = bench(scratch, *arguments, expect=2)
        check(expected in stderr and not table and "run 1" not in stderr, f"{arguments}: {stderr}")
        check(not os.listdir(work), f"{arguments}: left {os.listdir(work)}")
    table, stderr, _ = bench(scratch, "--strategies", "serial", "--set", "env.collector_env_num=3",
                             "--set", "policy.collect.n_sample=many", expect=2)
    check(not table and "n_sample" in stderr, stderr)


def check_interrupt(scratch):
    os.makedirs(scratch("tmp"), exist_ok=True)
    process = subprocess.Popen([RUNNER, "bench", CONFIG, "--strategies", "serial", "--ranks", "2",
                                "--updates", "100000000"], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, env=environment(TMPDIR=scratch("tmp")))
    check("run 1 of 4" in process.stderr.readline(), "nothing begins")
    deadline = time.monotonic() + 20
    while not any(os.path.exists(os.path.join(scratch("tmp"), name, "run"))
                  for name in os.listdir(scratch("tmp"))):
        check(time.monotonic() < deadline, "no run begins")
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    check(process.returncode == 130 and stdout == "", f"{process.returncode}: {stdout}{stderr}")
    left = [name for name in os.listdir(scratch("tmp")) if name.startswith("heddle-bench")]
    check(not left, f"left behind: {left}")


def main():
    check("usage: runner bench" in call("bench", "--help").stdout, "--help")
    with Scratch() as scratch:
        check_table(scratch)
        check_equal_without_lag(scratch)
        check_whole_iterations(scratch)
        check_mistakes(scratch)
        check_interrupt(scratch)


main()
