#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner bench: one table, lines of JSON, grids, seeds to the goal, equal parameters where they must be equal, mistakes
told before anything starts, an end on Ctrl-C, and nothing left behind. What its statistics say of results is for
test_bench_results.py."""

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
    """{candidate: (lag, turns, updates/s, number under bits, param_hash)}"""
    begin = next(i for i, line in enumerate(table) if line.startswith("candidate "))
    found = {}
    for line in table[begin + 1:table.index("", begin)]:
        name, lag, turns, rate = re.match(r"(.*?) +(\d+) +(\d+) +([\d.]+) ", line).groups()
        bits, param_hash = re.search(r" (\d+)  ([0-9a-f]{16})  ", line).groups()
        found[name] = (int(lag), int(turns), float(rate), int(bits), param_hash)
    return found


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check_table(scratch):
    table, stderr, work = bench(scratch, "--strategies", "serial,pipelined", *SMALL,
                                "--json", "lines.jsonl", "--ranks", "2", "--seed", "3", "--set", "world.shards=2",
                                "--set", "policy.other.eps.start=0.1", "--set", "policy.learn.learning_rate=0.01")
    found = rows(table)
    check(set(found) == {"serial", "pipelined"}, f"{table}")
    check((found["serial"][:2], found["pipelined"][:2]) == ((0, 2), (1, 2)), f"lags and turns: {table}")
    check((found["serial"][3], found["pipelined"][3]) == (1, 2), f"bits: {table}")
    check(found["serial"][4] != found["pipelined"][4], "a lag that changes nothing")
    check("2 ranks x 1 worker, 2 shards; 40 updates measured after 20" in table[0], table[0])
    check(re.findall(r"run \d of \d: (\w+)", stderr) == ["serial", "pipelined", "pipelined", "serial"],
          f"the order: {stderr}")
    check(os.listdir(work) == ["lines.jsonl"], f"left behind: {os.listdir(work)}")

    lines = read_lines(os.path.join(work, "lines.jsonl"))
    check([(line["strategy"], line["turn"]) for line in lines] ==
          [("serial", 1), ("pipelined", 1), ("pipelined", 2), ("serial", 2)], f"{lines}")
    for line in lines:
        check(line["updates_per_s"] > 0 and abs(line["env_steps_per_s"] / line["updates_per_s"] - 2 * 8 / 5) < 1e-6,
              f"16 env steps for 5 updates: {line}")
        check(0 < line["busy"] <= 1 and line["exposed"] > 0, f"{line}")
        check({"adam", "loss_grad", "collect"} <= set(line["verbs"]), f"{line['verbs']}")
        check(abs(sum(line["verbs"].values()) - line["busy"]) < 0.02, f"verbs add up to busy: {line}")
        check("evaluate" not in line["verbs"], "evaluations are left out")
        check((line["ranks"], line["updates"], line["measured"]) == (2, 40, 40), f"{line}")
        check(line["sets"][0] == "seed=3" and line["machine"] and "commit" in line, f"{line}")
        check(line["param_hash"] == found[line["strategy"]][4], "param_hash")
        load = line["load"]
        check(min(load["load"]) >= 0 and len(load["mhz"]) == 2 and load["cpus"] >= 1 and load["others"] >= 0 and 0 <= load["stolen"] <= 1, f"{load}")
        check(("trace" in line) == (line["turn"] == 2), "the last turn leaves a trace")
    trace = lines[-1]["trace"]
    iterations = set(trace["events"][4::6])
    check(trace["iteration"] in iterations and len(iterations) < 4, f"{trace['iteration']} of {iterations}")
    names = {trace["sums"][i][0] for i, at in zip(trace["events"][1::6], trace["events"][4::6]) if at == trace["iteration"]}
    check({"collect", "loss_grad", "adam"} <= names, f"of the iteration: {names}")


def check_equal_bits(scratch):
    """A strategy in a file of one's own, and a grid over keys that change no bits."""
    path = scratch("small_parts.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("bucket_mb: 0.02\nbatch_buffers: 3\n")
    table, _, work = bench(scratch, "--strategies", f"serial,{path}", "--updates", "40", "--warmup", "20", "--repeats", "1",
                           "--grid", "runtime.workers=1,2", "--quiet", "--evaluate", "--trace", "--json",
                           scratch("evaluated.jsonl"))
    found = rows(table)
    check(list(found) == [f"{name} runtime.workers={n}" for name in ("serial", path) for n in (1, 2)], f"{table}")
    check({row[3:] for row in found.values()} == {(1, found["serial runtime.workers=1"][4])}, f"bits: {table}")
    check(read_lines(scratch("evaluated.jsonl"))[0]["verbs"]["evaluate"] > 0, "--evaluate")
    check(sorted(os.listdir(work)) == [f"trace_{name}_runtime.workers={n}.json" for name in ("serial", "small_parts")
                                       for n in (1, 2)], f"{os.listdir(work)}")
    with open(os.path.join(work, "trace_small_parts_runtime.workers=1.json"), encoding="utf-8") as file:
        check(len(json.load(file)["traceEvents"]) > 100, "the trace is empty")


def check_other_bits(scratch):
    """Strategies are those beside the config, serial first; a key that changes results is no divergence."""
    table, _, _ = bench(scratch, "--grid", "policy.learn.learning_rate=0.001,0.002", "--updates", "5", "--warmup", "5",
                        "--repeats", "1", "--quiet")
    found = rows(table)
    names = sorted(os.path.splitext(name)[0] for name in os.listdir(os.path.join(os.path.dirname(CONFIG), "strategies")))
    check(list(found) == [f"{name} policy.learn.learning_rate={rate}"
                          for name in sorted(names, key=lambda name: name != "serial") for rate in ("0.001", "0.002")],
          f"{list(found)}")
    check(found["serial policy.learn.learning_rate=0.001"][3] == found["bucketed policy.learn.learning_rate=0.001"][3] and
          found["serial policy.learn.learning_rate=0.001"][4] != found["serial policy.learn.learning_rate=0.002"][4],
          f"{table}")


def check_goal(scratch):
    """Seeds take turns; a second call adds seeds, and those that did not reach the goal are told."""
    words = ("--to-goal", "--strategies", "serial,pipelined", "--json", scratch("goal.jsonl"), "--set", "max_train_iter=700")
    table, stderr, _ = bench(scratch, *words, "--seeds", "0-1")
    check(re.findall(r"run \d of \d: (\w+)", stderr) == ["serial", "pipelined", "pipelined", "serial"],
          f"the order: {stderr}")
    bench(scratch, *words, "--seeds", "2", "--set", "env.stop_value=1e9", "--quiet")
    table, stderr, _ = bench(scratch, *words, "--seeds", "1,4", "--set", "env.stop_value=30", "--quiet")
    lines = read_lines(scratch("goal.jsonl"))
    check([(line["candidate"], line["seed"]) for line in lines] ==
          [("serial", 0), ("pipelined", 0), ("pipelined", 1), ("serial", 1), ("serial", 2), ("pipelined", 2),
           ("serial", 1), ("pipelined", 1), ("pipelined", 4), ("serial", 4)], f"{lines}")
    check([line["reached"] for line in lines[4:6]] == [False, False] and lines[4]["reason"] == "limit", f"{lines[4:6]}")
    check("6 earlier results are left out, because of another config" in stderr, stderr)
    check(sum(line.endswith("  2 of 2") for line in table) == 2, f"{table}")
    for line in lines:
        check(line["seconds"] > 0 and line["updates"] <= 705 and line["env_steps"] > 0, f"{line}")


def check_whole_iterations(scratch):
    """An update is asked for where an iteration makes five: it is measured with its four fellows."""
    table, _, _ = bench(scratch, "--strategies", "serial", "--updates", "1", "--warmup", "1",
                        "--repeats", "1")
    check("5 updates measured" in table[0], table[0])


def check_default_list(scratch):
    """Without --strategies: all whose parameters the graph has."""
    table, stderr, _ = bench(scratch, "--set", "graph=graphs/dqn_local.yaml", "--updates", "5", "--warmup", "5", "--repeats", "1")
    check(list(rows(table)) == ["serial", "bucketed", "pipelined"], f"{table}")
    for name in ("bf16", "int8"):
        check(re.search(rf"strategies/{name}.yaml is left out: the graph has no strategy parameter exchange_precision", stderr), stderr)


def check_mistakes(scratch):
    with open(scratch("damaged.jsonl"), "w", encoding="utf-8") as file:
        file.write('{"case": "of another program"}\n{"case": "bench"}\n')
    mistakes = [
        (["--grid", "runtime.scheduler=eager,hasty"], "--grid: runtime.scheduler: expected one of"),
        (["--grid", "policy.collect.env_groups=1,3"], "--grid: policy.collect.env_groups: expected a divisor"),
        (["--grid", "runtime.workers"], "needs KEY=a,b,c"),
        (["--grid", "strategy=serial"], "--strategies lists strategies"),
        (["--grid", "max_train_iter=20,40"], "--grid max_train_iter: runs end after --warmup and --updates"),
        (["--grid", "seed=" + ",".join("0" * 60)], "more than 128 combinations"),
        (["--seeds", "0-9"], "--to-goal"),
        (["--to-goal", "--repeats", "2"], "--seeds"),
        (["--to-goal", "--trace"], "without --to-goal"),
        (["--to-goal", "--seeds", "3-1"], "expected 0-9 or 0,1,7"),
        (["--json", scratch("damaged.jsonl")], "damaged.jsonl:2: a result of runner bench without a valid 'candidate'"),
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
    check("run 1 of 6" in process.stderr.readline(), "nothing begins")
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
        check_equal_bits(scratch)
        check_other_bits(scratch)
        check_goal(scratch)
        check_whole_iterations(scratch)
        check_default_list(scratch)
        check_mistakes(scratch)
        check_interrupt(scratch)


main()
