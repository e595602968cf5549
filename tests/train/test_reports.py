#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tells of runs after them: trace's sums against the trace itself, compare, reports of runs that were
killed, damaged or are none, and of long ones. How pages look is for tests/browser."""

import collections
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, Scratch, call, check, environment, sets, train  # noqa: E402

SHORT = {"env__stop_value": "1e9", "max_train_iter": 300}
PAGE_BYTES = 5_000_000


def data_of(page):
    """What a page shows."""
    with open(page, encoding="utf-8") as file:
        text = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.S)[1]
    check("<" not in text, "the data could end its script")
    return json.loads(text)


def append(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


# -- Where the time went -------------------------------------------------------------------------


def length(intervals):
    total, until = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def check_trace(scratch):
    with open(scratch("traced/trace.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    check({e["pid"] for e in events if e["ph"] == "X"} == {0, 1}, "the trace lacks a rank")
    events = [e for e in events if e["pid"] == 0]
    waits = {e["tid"] for e in events if e["ph"] == "M" and e["args"]["name"] == "collectives"}
    spans = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            spans[e["tid"] in waits, e["name"]].append((e["ts"], e["ts"] + e["dur"]))
    work = [span for (wait, _), some in spans.items() if not wait for span in some]
    every = [span for some in spans.values() for span in some]
    exposed = (length(every) - length(work)) / (max(e for _, e in every) - min(b for b, _ in every))

    printed = call("trace", scratch("traced")).stdout
    rows, wait = {}, False
    for line in printed.splitlines():
        wait |= line.startswith("waiting for")
        if row := re.fullmatch(r"(.*?) +(\d+) +([\d.]+) +([\d.]+) +[\d.]+", line):
            rows[wait, row[1].strip()] = (int(row[2]), float(row[3]), float(row[4]))
    check(set(rows) == set(spans), f"rows {set(rows) ^ set(spans)} are in one place only")
    for key, some in spans.items():
        count, busy, union = rows[key]
        check(count == len(some) and abs(busy - sum(e - b for b, e in some) * 1e-6) < 2e-6 and
              abs(union - length(some) * 1e-6) < 2e-6, f"{key}: {rows[key]}")
    said = float(re.search(r"exposed ([\d.]+) %", printed)[1])
    check(abs(said - 100 * exposed) < 0.06, f"exposed {said} %, not {100 * exposed:.2f}")
    page = data_of(scratch("traced/report.html"))["runs"][0]
    trace = page["trace"]
    check(len(trace["events"]) == 6 * len(every), "events of the page")
    check(len(trace["arrows"]) > len(every) and max(trace["arrows"]) < len(every), "arrows of the page")
    bounds = re.search(r"([\d.]+) updates/s in the last \d+ iterations.*busiest worker +([\d.]+) .*critical path +([\d.]+) .*"
                       r"if ([^\n]+) were free: (\d+) % faster", printed, re.S)
    check(bounds and bounds[4] == trace["bounds"]["steps"][0][0] and
          abs(trace["bounds"]["rates"][0][1] / float(bounds[2]) - 1) < 1e-3, f"bounds {printed[-900:]}{trace['bounds']}")
    check(float(bounds[1]) <= 1.001 * float(bounds[2]) and float(bounds[1]) <= 1.001 * float(bounds[3]) and
          int(bounds[5]) > 0, f"a bound that does not hold: {bounds[0]}")
    alone = call("trace", scratch("traced/trace.json")).stdout
    check(alone.splitlines()[-6:] == printed.splitlines()[-6:], "the trace alone says something else")
    call("report", scratch("traced/trace.json"), "--out", scratch("trace.html"))
    check(data_of(scratch("trace.html"))["runs"][0]["trace"] == trace, "the page of the trace alone")

    plain = call("trace", scratch("plain")).stdout
    check("--trace" in plain and re.search(r"^loss_grad +1200 ", plain, re.M), f"totals: {plain}")


# -- Runs that are not whole ---------------------------------------------------------------------


def refused(directory, word):
    for command in (["report"], ["trace"], ["compare", directory]):
        text = call(*command, directory, expect=2).stderr
        check(word in text and len(text.splitlines()) == 1, f"{command[0]}: {text}")


def change(path, edit):
    with open(path, "rb") as file:
        old = file.read()
    with open(path, "wb") as file:
        file.write(edit(old))


def check_damage(scratch):
    refused(scratch("none"), "No such file")
    os.mkdir(scratch("empty"))
    refused(scratch("empty"), "/empty")
    refused(scratch("traced/result.json"), "result.json is")

    def damaged(name, edit):
        shutil.rmtree(scratch("copy"), ignore_errors=True)
        shutil.copytree(scratch("traced"), scratch("copy"))
        change(scratch("copy/" + name), edit)
        refused(scratch("copy"), name)

    events = "log/serial/" + os.listdir(scratch("traced/log/serial"))[0]
    damaged("result.json", lambda old: old[:-40])
    damaged("trace.json", lambda old: old[:len(old) // 2])
    damaged("trace.json", lambda old: b'{"traceEvents":[{}]}')
    damaged("log/metrics.jsonl", lambda old: old.replace(b'"s":', b'"s"', 1))
    damaged("total_config.yaml", lambda old: b"a: [1\n")
    damaged("total_config.yaml", lambda old: b"[1, 2]\n")
    damaged(events, lambda old: old[:100] + bytes([old[100] ^ 1]) + old[101:])
    # A file of a run that was killed may end anywhere.
    change(scratch("copy/total_config.yaml"), lambda _: open(scratch("traced/total_config.yaml"), "rb").read())
    change(scratch("copy/" + events), lambda _: open(scratch("traced/" + events), "rb").read()[:-7])
    change(scratch("copy/log/metrics.jsonl"), lambda old: old[:-30])
    call("report", scratch("copy"))


def check_killed(scratch):
    run = subprocess.Popen([RUNNER, "run", CONFIG, "--quiet", "--dir", scratch("killed"),
                            *sets(env__stop_value="1e9")], env=environment())
    end = time.monotonic() + 60
    while time.monotonic() < end and not (os.path.exists(scratch("killed/log/learner")) and
                                          os.path.getsize(scratch("killed/log/metrics.jsonl")) > 4000):
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    call("report", scratch("killed"))
    page = data_of(scratch("killed/report.html"))["runs"][0]
    check(page["result"] is None and page["end"] is None and page["start"]["ranks"] == 1, "a killed run")
    check(len(page["samples"]["rows"]) > 2 and page["tables"]["evaluator"]["rows"], "its samples")
    check("not ended" in call("trace", scratch("killed")).stdout, "trace of a killed run")


def check_parts(scratch):
    """A run that was started again from update 120: what came after it before does not count."""
    shutil.copytree(scratch("plain"), scratch("parts"))
    with open(scratch("plain/log/metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    samples = [line for line in lines if "s" in line]
    again = dict(lines[0]["start"], update=120, time=lines[0]["start"]["time"] + 5000)
    append(scratch("parts/log/metrics.jsonl"), json.dumps({"start": again}) + "\n" +
           "".join(json.dumps(dict(sample, update=120 + sample["update"])) + "\n" for sample in samples))
    call("report", scratch("parts"))
    page = data_of(scratch("parts/report.html"))["runs"][0]
    columns = page["samples"]["columns"]
    rows = [dict(zip(columns, row)) for row in page["samples"]["rows"]]
    kept = [sample for sample in samples if sample["update"] <= 120]
    check(page["starts"] == 2 and len(rows) == len(kept) + len(samples), "samples of two parts")
    check([row["update"] for row in rows] == sorted(row["update"] for row in rows), "updates go back")
    check(abs(rows[-1]["s"] - 2 * samples[-1]["s"]) < 0.01, "the pause counts as training")


# -- Long runs -----------------------------------------------------------------------------------


def table_of_crc():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC = table_of_crc()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    text = b""
    while value > 127:
        text += bytes([value & 127 | 128])
        value >>= 7
    return text + bytes([value])


def record(tag, step, wall_s, value):
    inner = b"\n" + varint(len(tag)) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\n" + varint(len(inner)) + inner
    event = b"\t" + struct.pack("<d", wall_s) + b"\x10" + varint(step) + b"*" + varint(len(summary)) + summary
    head = struct.pack("<Q", len(event))
    return head + struct.pack("<I", masked_crc(head)) + event + struct.pack("<I", masked_crc(event))


def check_long(scratch):
    """Twenty thousand evaluations, thousands of samples, full rings of eight workers."""
    shutil.copytree(scratch("traced"), scratch("long"))
    rng = random.Random(5)
    with open(scratch("long/log/metrics.jsonl"), encoding="utf-8") as file:
        start, sample = [json.loads(line) for line in file][:2]
    begin = start["start"]["time"]
    events, peak = scratch("long/log/serial/events.out.tfevents.9999999999.x.1.0"), 7777
    with open(events, "wb") as file:
        for i in range(20000):
            value = 500.0 if i == peak else rng.random()
            file.write(record(b"evaluator_iter/eval_episode_return_mean", 400 + i, begin + 3 * i, value))
    append(scratch("long/log/metrics.jsonl"), "".join(
        json.dumps(dict(sample, s=10.0 * i, update=300 + i)) + "\n" for i in range(1, 6000)))
    with open(scratch("long/trace.json"), "w", encoding="utf-8") as file:
        file.write('{"traceEvents":[\n{"name":"process_name","ph":"M","pid":0,"args":{"name":"rank 0"}}')
        for tid in range(8):
            file.write(f',\n{{"name":"thread_name","ph":"M","pid":0,"tid":{tid},"args":{{"name":"worker {tid}"}}}}')
            file.writelines(f',\n{{"name":"adam","ph":"X","pid":0,"tid":{tid},"ts":{i * 100 + tid}.000,"dur":50.000,'
                            f'"args":{{"iteration":{i},"shard":0,"part":0,"item":0,"stage":0}}}}'
                            for i in range(tid * 100, tid * 100 + (65536 if tid < 7 else 1000)))
        file.write("\n]}\n")
    begin = time.monotonic()
    call("report", scratch("long"))
    seconds, size = time.monotonic() - begin, os.path.getsize(scratch("long/report.html"))
    check(size < PAGE_BYTES, f"a long run's page has {size} bytes")
    page = data_of(scratch("long/report.html"))["runs"][0]
    table = page["tables"]["evaluator"]
    returns = [row[table["columns"].index("eval_episode_return_mean")] for row in table["rows"]]
    check(max(returns) == 500 and len(returns) <= 600, "thinning lost the best evaluation")
    check(table["rows"][-1][0] == 20399 and page["samples"]["rows"][-1][0] == 59990, "or the last ones")
    check(page["trace"]["cut"] and page["trace"]["left_out"] > 0, "nothing is said of what is left out")
    check(page["trace"]["begin_s"] > 0.0599, "lanes that are full begin at different times")
    print(f"a long run's page: {size} bytes, written in {seconds:.1f} s")


# -- compare -------------------------------------------------------------------------------------


def check_compare(scratch):
    same = call("compare", scratch("plain"), scratch("again"), cwd=scratch.path).stdout
    check("the same bits" in same and "config: the same" in same, f"two runs of one command: {same}")
    other = call("compare", scratch("plain"), scratch("other"), "--out", scratch("c.html")).stdout
    check("different bits" in other and "2 keys differ; the first: seed" in other and "seed: 0 | 4" in other and
          "policy.learn.learning_rate: 0.001 | 0.002" in other, f"two runs that differ: {other}")
    check(len(data_of(scratch("c.html"))["runs"]) == 2 and os.path.exists(scratch("compare.html")), "pages")
    with open(scratch("plain/result.json"), encoding="utf-8") as file:
        outcome = json.load(file)
    for word in (outcome["param_hash"], outcome["fingerprint"], str(outcome["env_step"])):
        check(word in same, f"compare does not tell {word}")
    check("missing run directory" in call("compare", scratch("plain"), expect=2).stderr, "one run is none to compare")


def main():
    with Scratch() as scratch:
        train(scratch("traced"), "--trace", ranks=2, **SHORT)
        train(scratch("plain"), **SHORT)
        train(scratch("again"), exp_name="another", **SHORT)
        train(scratch("other"), "--seed", "4", policy__learn__learning_rate=0.002, **SHORT)
        check_trace(scratch)
        check_damage(scratch)
        check_killed(scratch)
        check_parts(scratch)
        check_long(scratch)
        check_compare(scratch)


main()
