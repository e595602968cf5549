#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trace as Perfetto's protobuf, read back by the perfetto package: tracks, slices, arrows, counters and clocks
say what trace.json says, of ranks of one host, and of two hosts whose clocks are aligned."""

import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import Scratch, call, check, skip, train  # noqa: E402

try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import BUILTIN_CLOCK_MONOTONIC, Trace, TrackEvent
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

KEYS = dict(env__stop_value="1e9", max_train_iter=60, world__shards=4)
BEGIN, END, COUNTER = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END, TrackEvent.TYPE_COUNTER
LIMIT = {"busy workers": 2, "exposed communication": 1}


def read_json(directory):
    with open(os.path.join(directory, "trace.json"), encoding="utf-8") as file:
        return json.load(file)


def read_perfetto(directory):
    path = os.path.join(directory, "all.perfetto-trace")
    call("trace", directory, "--perfetto", path)
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    return trace.packet


def check_slices(packets, tracks, events):
    """The same slices on the same tracks; those of a track follow one another."""
    found, open_on = collections.Counter(), {}
    for packet in packets:
        event, track = packet.track_event, packet.track_event.track_uuid
        if event.type == BEGIN:
            check(track not in open_on, f"{event.name} begins before {open_on.get(track)} has ended")
            open_on[track] = (event.name, packet.timestamp, {a.name: a.int_value for a in event.debug_annotations})
        elif event.type == END:
            name, begin, about = open_on.pop(track)
            thread = tracks[track].thread
            check(packet.timestamp >= begin, f"{name} ends before it begins")
            found[thread.pid - 1, thread.tid - 1, name, about["iteration"], about["item"], packet.timestamp - begin] += 1
    check(not open_on, f"{open_on} do not end")
    wanted = collections.Counter((e["pid"], e["tid"], e["name"], e["args"]["iteration"], e["args"]["item"],
                                  round(1000 * e["dur"])) for e in events if e["ph"] == "X")
    check(len(found) > 500 and sum(found.values()) == sum(wanted.values()), "other slices than in the JSON")
    check({key[:5] for key in found} == {key[:5] for key in wanted}, "slices with other names or iterations")


def check_flows(packets, events):
    """Every arrow leads from one slice to one that begins when it has ended, or later."""
    begins, ends, begun, ended = {}, {}, {}, {}
    for packet in packets:
        event = packet.track_event
        if event.type == BEGIN:
            begun[event.track_uuid] = packet
            begins.update({flow: packet for flow in event.terminating_flow_ids})
            ends.update({flow: packet for flow in event.flow_ids})
        elif event.type == END:
            ended[id(begun[event.track_uuid])] = packet.timestamp
    check(len(ends) > 500 and begins.keys() == ends.keys(), "arrows with one end")
    check(len(ends) == sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events), "arrows of the JSON")
    for flow, packet in begins.items():
        check(ended[id(ends[flow])] <= packet.timestamp + 1, f"an arrow from {ends[flow]} to {packet} leads back")
    pairs = {(ends[flow].track_event.name, packet.track_event.name) for flow, packet in begins.items()}
    check({("collect", "push_replay"), ("push_replay", "sample_replay"), ("sample_replay", "loss_grad"),
           ("mean(grad)", "adam"), ("adam", "loss_grad")} <= pairs, f"dependences of the graph: {sorted(pairs)}")


def check_counters(packets, tracks, ranks, crossing):
    values = collections.defaultdict(list)
    for packet in packets:
        if packet.track_event.type == COUNTER:
            track = tracks[packet.track_event.track_uuid]
            rank = tracks[track.parent_uuid].process.pid - 1
            check(packet.track_event.HasField("counter_value"), "a counter without a value")
            values[rank, track.name].append(packet.track_event.counter_value)
    names = {"ready tasks", "busy workers", "exposed communication"} | ({"bytes in flight"} if crossing else set())
    check(set(values) == {(rank, name) for rank in range(ranks) for name in names}, f"counters {set(values)}")
    for (rank, name), list_of in values.items():
        check(min(list_of) == list_of[-1] == 0 < max(list_of) <= LIMIT.get(name, 1e9), f"{name} of rank {rank}: {list_of[-9:]}")


def check_one(scratch, name, hosts, **keys):
    train(scratch(name), "--trace", ranks=2, nodes=hosts, **KEYS, **keys)
    written, packets = read_json(scratch(name)), read_perfetto(scratch(name))
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
    processes = {t.process.pid: t for t in tracks.values() if t.HasField("process")}
    check({pid: t.process.process_name for pid, t in processes.items()} == {1: "rank 0", 2: "rank 1"}, "ranks")
    check(packets[0].clock_snapshot.primary_trace_clock == BUILTIN_CLOCK_MONOTONIC, "the clock")
    check(all(p.timestamp_clock_id == BUILTIN_CLOCK_MONOTONIC for p in packets if p.HasField("track_event")), "clocks")
    check({t.description for t in processes.values()} == {written["clock"]["about"]}, "how clocks were aligned")
    check_slices(packets, tracks, written["traceEvents"])
    check_flows(packets, written["traceEvents"])
    check_counters(packets, tracks, 2, hosts > 1)
    return written


def check_clocks(written):
    """Both hosts are this one, so that what is added to a clock is at most the error that the file admits."""
    error = written["clock"]["error_us"]
    check(written["clock"]["hosts"] == 2 and 0 <= error < 1e5, f"{written['clock']}")
    passed = collections.defaultdict(dict)
    waits = {(task[0], task[1]): task[13] for task in written["tasks"] if task[3] == 1 and task[4] == 0}
    for e in written["traceEvents"]:
        if e["ph"] == "X" and (key := (e["pid"], e["args"]["task"])) in waits:
            passed[waits[key]][e["pid"]] = (e["ts"], e["ts"] + e["dur"])
    both = [ranks for ranks in passed.values() if len(ranks) == 2]
    check(len(both) > 50, "sync points of both ranks")
    for (begin0, end0), (begin1, end1) in (ranks.values() for ranks in both):
        check(max(begin0, begin1) <= min(end0, end1) + 2 * error + 0.01, "a rank passes before the other has arrived")
    print(f"clocks of two hosts, by {len(both)} sync points, right to {error:.1f} us")


def main():
    with Scratch() as scratch:
        check_one(scratch, "host", 1)
        check_clocks(check_one(scratch, "hosts", 2, runtime__transport="tcp"))
        train(scratch("plain"), **KEYS)
        text = call("trace", scratch("plain"), "--perfetto", scratch("none"), expect=2).stderr
        check("run it with --trace" in text and not os.path.exists(scratch("none")), text)


main()
