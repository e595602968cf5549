#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner calibrate and runner simulate: a simulated rank is as fast as the measured one, networks, GPUs and slower
tasks have the effects that they must have, equal calls give equal results, and mistakes are told."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, RUNNER, TIMEOUT, Scratch, call, check, environment, sets, skip, train  # noqa: E402

LATENCY_S = 1e-3
DATA_SHARE = 1448 / 1538  # of the bytes on an Ethernet cable
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="node" suffix="" radical="0-3" speed="1Gf" bw="{bytes_per_s}Bps" lat="10us"
           sharing_policy="SPLITDUPLEX" router_id="switch"/>
</platform>
"""


def simulate(scratch, *arguments, calibration="calibration.json"):
    call("simulate", CONFIG, "--calibration", scratch(calibration), "--strategies", "serial",
         "--json", scratch("out.json"), *arguments)
    with open(scratch("out.json"), encoding="utf-8") as file:
        return json.load(file)


def check_one_rank(scratch, measured):
    one, = simulate(scratch)
    ratio = one["updates_per_s"] / measured["updates_per_s"]
    # bench/nodes --simulate compares them on a quiet machine, where they differ by a few percent.
    check(0.1 < ratio < 10, f"simulated over measured updates/s of one rank: {ratio}")
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


def check_precision(scratch):
    """The mean of gradients is most of what two nodes send, and in int8 little more than a quarter of that."""
    call("calibrate", CONFIG, "--strategies", "serial,int8", "--updates", "100", "--quiet", "--out", scratch("int8.json"))
    sent = {row["strategy"]: row["sent_bytes_per_update"]
            for row in simulate(scratch, "--nodes", "2", "--strategies", "serial,int8", calibration="int8.json")
            if row["nodes"] == 2}
    check(0.25 < sent["int8"] / sent["serial"] < 0.28, f"bytes of an update: {sent}")


def check_scale(scratch):
    """What it takes to submit and to start tasks is not scaled; a busy machine takes long for it."""
    with open(scratch("calibration.json"), encoding="utf-8") as file:
        calibration = json.load(file)
    calibration["strategies"]["serial"].update(submit_s=1e-9, start_s=1e-9)
    with open(scratch("tasks.json"), "w", encoding="utf-8") as file:
        json.dump(calibration, file)
    plain, = simulate(scratch, calibration="tasks.json")
    scaled, = simulate(scratch, "--scale", "10", calibration="tasks.json")
    ratio = plain["updates_per_s"] / scaled["updates_per_s"]
    check(9 < ratio <= 10.5, f"ten times slower tasks: {ratio}")


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


def check_platform(scratch):
    """A star that a file describes is the star that --network describes."""
    with open(scratch("star.xml"), "w", encoding="utf-8") as file:
        file.write(PLATFORM.format(bytes_per_s=1e9 / 8 * DATA_SHARE))
    star = simulate(scratch, "--nodes", "4", "--network", "1Gbit,20us")
    for ours, theirs in zip(star, simulate(scratch, "--nodes", "4", "--platform", scratch("star.xml"))):
        check(abs(ours["updates_per_s"] / theirs["updates_per_s"] - 1) < 1e-3, f"{ours} {theirs}")


def check_many_ranks(scratch):
    """All takes fixed times: what a busy machine measured, four iterations of drawn durations and the order in which
    tasks of such durations fit on a worker say little of scaling."""
    with open(scratch("calibration.json"), encoding="utf-8") as file:
        calibration = json.load(file)
    serial = calibration["strategies"]["serial"]
    serial.update(submit_s=1e-6, start_s=1e-6, bytes_per_s=1e10, socket_bytes_per_s=1e9)
    for task in serial["tasks"]:
        task.update(mean=1e-4, tenths=[1e-4] * len(task["tenths"]))
    with open(scratch("even.json"), "w", encoding="utf-8") as file:
        json.dump(calibration, file)
    many = ("--nodes", "32", "--ranks-per-node", "8", "--iterations", "4", "--network", "100Gbit,2us")
    weak = simulate(scratch, *many, "--shards-per-rank", "1", calibration="even.json")
    check([row["ranks"] for row in weak] == [8, 16, 32, 64, 128, 256], f"{weak}")
    check(all(row["shards"] == row["ranks"] for row in weak), f"weak scaling: {weak}")
    check(all(0 < row["efficiency"] < 1.01 for row in weak), f"weak scaling: {weak}")
    check(weak[-1]["env_steps_per_s"] > weak[0]["env_steps_per_s"], f"256 ranks are slower than 8: {weak}")
    strong = simulate(scratch, *many, "--set", "world.shards=256", calibration="even.json")
    check(all(row["shards"] == 256 for row in strong), f"strong scaling: {strong}")
    check(strong[-1] | {"efficiency": 0} == weak[-1] | {"efficiency": 0}, "256 shards of 256 ranks are 1 each")


def check_gpus(scratch):
    arguments = ("--nodes", "2", "--set", "world.shards=8", "--gpus", "2", "--trace-out", scratch("gpus.json"))
    refused = call("simulate", CONFIG, "--calibration", scratch("calibration.json"), "--strategies", "serial",
                   *arguments, "--gpu-speedup", "2", expect=None)
    if "built without CUDA" in refused.stderr:
        print("no GPUs are simulated here")
        return
    check("Not simulated" in refused.stdout, refused.stdout)
    slow = simulate(scratch, *arguments, "--gpu-speedup", "0.01", calibration="tasks.json")
    with open(scratch("gpus.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    found = {lanes[event["tid"]] for event in events if event["name"] == "loss_grad"}
    check(found == {"GPU 0", "GPU 1"}, f"gradients are computed by {found}")
    copies = [event for event in events if event["name"].startswith("transfer")]
    check(copies and all(lanes[event["tid"]].startswith("GPU") for event in copies if event["dur"] > 1e3), "copies")
    fast = simulate(scratch, *arguments, "--gpu-speedup", "1", calibration="tasks.json")
    for one, other in zip(slow, fast):
        check(one["gpu_busy"] > other["gpu_busy"] > 0, f"{one} {other}")
        check(5 * one["updates_per_s"] < other["updates_per_s"], f"GPUs 100 times as fast: {one} {other}")
    check(slow[1]["sent_bytes_per_update"] > 1e5, "GPUs of two nodes exchange no gradients")
    link = simulate(scratch, *arguments, "--gpu-speedup", "1", "--gpu-link", "1Mbit", calibration="tasks.json")
    check(10 * link[0]["updates_per_s"] < fast[0]["updates_per_s"], "a slow way to the GPU costs nothing")


def check_page(scratch):
    simulate(scratch, "--nodes", "2", "--page", scratch("page.html"))
    with open(scratch("page.html"), encoding="utf-8") as file:
        text = file.read()
    check(text.count('"updates_per_s"') == 3, "two results and the calibration")  # its curves: tests/browser
    check("10Gbit,20us" in text and "runs of 400 updates" in text, "what the page was made from")


def check_calibration_of_run(scratch):
    train(scratch("run"), "--trace", "--strategy", "bucketed", max_train_iter=400, env__stop_value="1e9",
          runtime__workers=2)
    arguments = ("calibrate", CONFIG, "--from", scratch("run"), "--out", scratch("run.json"))
    call(*arguments)
    with open(scratch("run.json"), encoding="utf-8") as file:
        found, = json.load(file)["strategies"].items()
    check(found[0] == "bucketed" and found[1]["shards"] == 4, f"{found}")
    each = {task["name"]: task["each"] for task in found[1]["tasks"]}
    check(each["loss_grad"] == each["adam"] == 5 and each["collect"] == 1, f"tasks of an iteration: {each}")
    one, = (call("simulate", CONFIG, "--calibration", scratch("run.json"), "--strategies", "bucketed",
                 "--json", scratch("out.json")), )
    check("bucketed" in one.stdout, one.stdout)
    for more, text in ((("--strategies", "serial"), "none of serial"),
                       (("--set", "policy.learn.batch_size=32"), "it differs at 'policy.learn.batch_size'"),
                       (("--from", scratch("")), "total_config.yaml cannot be read")):
        done = call(*arguments, *more, expect=2)
        check(text in done.stderr, f"{more}: {done.stderr}")


def check_stop(scratch):
    """Ctrl-C ends a long simulation and keeps what there is."""
    command = [RUNNER, "simulate", CONFIG, "--calibration", scratch("calibration.json"), "--strategies", "serial",
               "--nodes", "512", "--shards-per-rank", "1", "--iterations", "1000", "--json", scratch("part.json")]
    run = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (line := run.stdout.readline()).startswith("serial "):
        check(line, "no row of the table came")
    run.send_signal(signal.SIGINT)
    out, errors = run.communicate(timeout=TIMEOUT)
    check(run.returncode == 130 and "stopped while" in errors, f"{run.returncode}: {out}{errors}")
    with open(scratch("part.json"), encoding="utf-8") as file:
        check(0 < len(json.load(file)) < 10, "what had been simulated")


def check_mistakes(scratch):
    calibration = ("--calibration", scratch("calibration.json"))
    for arguments, text in (
            ((*calibration, "--network", "fast"), "expected RATE,LATENCY"),
            (("--calibration", scratch("none.json")), "none.json"),
            (("--calibration", CONFIG), "no calibration"),
            ((*calibration, "--nodes", "8"), "8 ranks"),
            ((*calibration, "--strategies", "pipelined"), "has no strategy pipelined"),
            ((*calibration, "--strategies", "serial", "--set", "policy.learn.batch_size=32"),
             "differs at 'policy.learn.batch_size'"),
            ((*calibration, "--gpus", "1"), "--gpus and --gpu-speedup"),
            ((*calibration, "--gpu-link", "fast"), "--gpu-link fast: expected a rate"),
            ((*calibration, "--scale", "-1"), "--scale: "),
            ((*calibration, "--trace-out", scratch("t.json"), "--trace-rank", "1"), "ranks are 0 to 0")):
        done = call("simulate", CONFIG, *arguments, expect=2)
        check(text in done.stderr, f"{arguments}: {done.stderr}")


def check_plugins(scratch):
    """Nothing that only the config names is loaded or started before it is trusted."""
    for command in (("simulate", CONFIG, "--calibration", scratch("calibration.json")),
                    ("calibrate", CONFIG, "--from", scratch("run"))):
        for keys in (sets(env__type="gymnasium", env__env_id="CartPole-v1"), sets(env__type=scratch("none.so"))):
            said = call(*command, *keys, expect=2).stderr
            check("--allow-plugin" in said, said)
            said = call(*command, *keys, expect=2, env=environment(HEDDLE_ALLOW_PLUGIN=1)).stderr
            check("--allow-plugin" not in said, said)


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
        check_precision(scratch)
        check_scale(scratch)
        check_trace(scratch)
        check_platform(scratch)
        check_many_ranks(scratch)
        check_gpus(scratch)
        check_page(scratch)
        check_calibration_of_run(scratch)
        check_stop(scratch)
        check_mistakes(scratch)
        check_plugins(scratch)


main()
