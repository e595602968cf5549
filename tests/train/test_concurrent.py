#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DQN that acts on the target net: it learns CartPole; ranks and executors end in one param_hash; killed runs resume to the
same bits. Its collects run beside the updates of the iteration before, which those of DQN never do. With a target that is
copied after each update it is DQN, to the bit."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import CONFIG, Scratch, check, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

GRAPH = dict(graph="graphs/dqn_concurrent.yaml")
SHORT = dict(env__stop_value="1e9", max_train_iter=300)
WAYS = [dict(ranks=2), dict(ranks=4, strategy__bucket_mb=0.02), dict(runtime__executor="sequential"),
        dict(runtime__workers=2, runtime__max_inflight_iterations=4, runtime__scheduler="random")]


def count_overlaps(directory):
    """The iterations that begin to collect before the last update of the one before has ended."""
    with open(os.path.join(directory, "trace.json"), encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["name"] in ("adam", "collect")]
    began, ended = {}, {}
    for event in events:
        at = event["args"]["iteration"]
        if event["name"] == "collect":
            began[at] = min(event["ts"], began.get(at, event["ts"]))
        else:
            ended[at] = max(event["ts"] + event["dur"], ended.get(at, 0))
    return sum(began[at + 1] < end for at, end in ended.items() if at + 1 in began)


def check_overlap(scratch):
    keys = dict(SHORT, runtime__workers=2)
    train(scratch("serial"), "--trace", **keys)
    train(scratch("beside"), "--trace", **keys, **GRAPH)
    serial, beside = count_overlaps(scratch("serial")), count_overlaps(scratch("beside"))
    check(serial == 0 and beside > 0, f"collects beside updates: {serial} of DQN, {beside} on the target net")


def check_actor(scratch):
    often = dict(SHORT, policy__learn__target_update_freq=1)
    dqn, concurrent = train(scratch("dqn"), **often), train(scratch("often"), **often, **GRAPH)
    check(dqn["param_hash"] == concurrent["param_hash"], f"with equal nets: {dqn}\n{concurrent}")
    other = train(scratch("seldom"), **SHORT)["param_hash"]
    check(train(scratch("acts"), **SHORT, **GRAPH)["param_hash"] != other, "it does not matter which net acts")


def main():
    with Scratch() as scratch:
        check_ways(scratch, "ways", dict(SHORT, **GRAPH), WAYS)
        check_actor(scratch)
        check_overlap(scratch)
        run = train(scratch("learn"), max_train_iter=5000, **GRAPH)
        check(run["reason"] == "solved", f"{run}")
        print(f"solved after {run['train_iter']} updates, {run['env_step']} env steps")
        check_kills(scratch, "concurrent", CONFIG, dict(GRAPH, env__stop_value="1e9", max_train_iter=4000), (1, 2), 2)


main()
