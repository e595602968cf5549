#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner calibrate and runner simulate: a simulated rank is as fast as the measured one, networks and slower
tasks have the effects that they must have, equal calls give equal results, and mistakes are told."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, Scratch, call, check, skip  # noqa: E402

LATENCY_S = 1e-3


def simulate(scratch, *arguments):
    call("simulate", CONFIG, "--calibration", scratch("calibration.json"), "--strategies", "serial",
         "--json", scratch("out.json"), *arguments)
    with open(scratch("out.json"), encoding="utf-8") as file:
        return json.load(file)


def check_one_rank(scratch, measured):
    one, = simulate(scratch)
    ratio = one["updates_per_s"] / measured["updates_per_s"]
    check(0.7 < ratio < 1.4, f"simulated over measured updates/s of one rank: {ratio}")
    check(one["exposed_s_per_update"] == 0 and one["sent_bytes_per_update"] == 0, f"{one}")


def check_networks(scratch):
    fast = simulate(scratch, "--nodes", "4", "--network", "1000Gbit,1ns")
    slow = simulate(scratch, "--nodes", "4", "--network", "100Mbit,1ms")
    check([row["nodes"] for row in fast] == [1, 2, 4], f"{fast}")
    check(fast[0] == slow[0], "a network matters to one node")
    for quick, late in zip(fast[1:], slow[1:]):
        check(quick["updates_per_s"] > late["updates_per_s"], f"{quick} {late}")
        check(quick["sent_bytes_per_update"] == late["sent_bytes_per_update"] > 0, "the network changes messages")
        # Without lags an update waits for at least one exchange of gradients: out and back.
        check(late["exposed_s_per_update"] > LATENCY_S, f"{late}")
        bytes_s = late["sent_bytes_per_update"] / late["nodes"] / (100e6 / 8)
        check(1 / late["updates_per_s"] > bytes_s, f"more bytes than the links carry: {late}")
    check(simulate(scratch, "--nodes", "4", "--network", "100Mbit,1ms") == slow, "equal calls differ")


def check_scale(scratch):
    plain, = simulate(scratch)
    scaled, = simulate(scratch, "--scale", "10")
    ratio = plain["updates_per_s"] / scaled["updates_per_s"]
    check(5 < ratio <= 10.5, f"ten times slower tasks: {ratio}")


def check_trace(scratch):
    simulate(scratch, "--nodes", "2", "--trace-out", scratch("trace.json"), "--trace-rank", "1")
    with open(scratch("trace.json"), encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    check({"loss_grad", "collect", "mean(grad)"} <= {event["name"] for event in events}, "names of the trace")
    check(all(event["pid"] == 1 and event["dur"] >= 0 for event in events), "events of the trace")
    end = 0
    for event in sorted((e for e in events if e["tid"] == 0), key=lambda e: e["ts"]):
        check(event["ts"] >= end - 0.01, f"worker 0 does two things at once: {event}")
        end = event["ts"] + event["dur"]


def check_mistakes(scratch):
    calibration = ("--calibration", scratch("calibration.json"))
    for arguments, text in (
            ((*calibration, "--network", "fast"), "expected RATE,LATENCY"),
            (("--calibration", scratch("none.json")), "there is no calibration"),
            (("--calibration", CONFIG), "is no calibration"),
            ((*calibration, "--nodes", "8"), "8 ranks"),
            ((*calibration, "--strategies", "pipelined"), "has no strategy pipelined"),
            ((*calibration, "--strategies", "serial", "--set", "policy.learn.batch_size=32"),
             "differs at 'policy.learn.batch_size'"),
            ((*calibration, "--scale", "-1"), "--scale: expected a positive number"),
            ((*calibration, "--trace-out", scratch("t.json"), "--trace-rank", "1"), "ranks are 0 to 0")):
        done = call("simulate", CONFIG, *arguments, expect=2)
        check(text in done.stderr, f"{arguments}: {done.stderr}")


def main():
    if not os.path.exists(os.path.join(os.path.dirname(RUNNER), "plugins", "heddle_simgrid.so")):
        skip("built without SimGrid (libsimgrid-dev)")
    with Scratch() as scratch:
        call("calibrate", CONFIG, "--strategies", "serial", "--updates", "400", "--quiet",
             "--out", scratch("calibration.json"))
        with open(scratch("calibration.json"), encoding="utf-8") as file:
            measured = json.load(file)["strategies"]["serial"]
        check_one_rank(scratch, measured)
        check_networks(scratch)
        check_scale(scratch)
        check_trace(scratch)
        check_mistakes(scratch)


main()
