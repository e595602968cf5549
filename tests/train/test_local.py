#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Local updates: DQN and PPO by shards that learn by themselves and meet every few updates learn CartPole. Ranks, bucket
sizes and executors end in one param_hash, which is that of the policy after the last whole round; killed runs resume to
the same bits. A single shard, which has nobody to meet, learns as by the graph that averages gradients, to the bit."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, sets, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

CONFIGS = {name: os.path.join(ROOT, f"configs/cartpole_{name}_ddp.yaml") for name in ("dqn", "ppo")}
DILOCO = dict(policy__learn__outer__learning_rate=0.7, policy__learn__outer__momentum=0.9)
SHORT = dict(env__stop_value="1e9", max_train_iter=120)
WAYS = [dict(ranks=2), dict(ranks=4, strategy__bucket_mb=0.02), dict(runtime__executor="sequential", ranks=2),
        dict(ranks=4, nodes=2, runtime__transport="tcp", runtime__exchange="halves"),
        dict(runtime__workers=2, runtime__max_inflight_iterations=4, runtime__scheduler="random")]


def local(name, **keys):
    return dict(config=CONFIGS[name], graph=f"graphs/{name}_local.yaml", **keys)


def check_alone(scratch, name):
    """The mean of one shard is the shard, whatever the length of a round."""
    alone = dict(SHORT, world__shards=1)
    wanted = train(scratch("averaged"), config=CONFIGS[name], **alone)["param_hash"]
    for k in (3, 8):
        found = train(scratch(f"alone{k}"), **local(name, strategy__local_updates=k, **alone))["param_hash"]
        check(found == wanted, f"{name}: one shard by rounds of {k}: {found}, not {wanted}")
    moved = train(scratch("moved"), **local(name, **DILOCO, **alone))["param_hash"]
    check(moved != wanted, f"{name}: momentum changes nothing")


def check_rounds(scratch, name):
    """What shards have learned since the last round is not in the policy; rounds of another length make another one."""
    def find(folder, **keys):
        return train(scratch(folder), **local(name, **{**SHORT, **keys}))["param_hash"]

    one = find("one", strategy__local_updates=120)
    longer = find("longer", strategy__local_updates=120, max_train_iter=160)
    check(longer == one, f"{name}: a round that is not over counts")
    check(find("many") != one, f"{name}: the length of a round changes nothing")


def check_learning(scratch, name, **keys):
    run = train(scratch("learn"), **local(name, max_train_iter=20000, **keys))
    check(run["reason"] == "solved", f"{name} {keys}: {run}")
    print(f"{name} {keys}: solved after {run['train_iter']} updates, {run['env_step']} env steps")


def check_sent(scratch):
    """Rounds of eight updates send an eighth of the bytes, but for counters."""
    sent = {}
    for graph in ("dqn", "dqn_local"):
        train(scratch(graph), ranks=2, nodes=2, graph=f"graphs/{graph}.yaml", runtime__transport="tcp", **SHORT)
        with open(scratch(f"{graph}/log/metrics.jsonl"), encoding="utf-8") as file:
            sent[graph] = json.loads(file.read().splitlines()[-2])["sent_bytes"]
    check(7.5 < sent["dqn"] / sent["dqn_local"] <= 8, f"bytes sent: {sent}")


def check_messages(scratch):
    said = call("graph", CONFIGS["dqn"], *sets(graph="graphs/dqn.yaml", **DILOCO)).stderr
    check("policy.learn.outer.momentum is not used" in said, said)
    with open(os.path.join(ROOT, "configs/graphs/dqn_local.yaml"), encoding="utf-8") as file:
        text = file.read()
    rounded = text.replace("reads: [local], writes: [average]", "exchange: bf16, reads: [local], writes: [average]")
    check(rounded != text, "the graph's mean has changed")
    with open(scratch("rounded.yaml"), "w", encoding="utf-8") as file:
        file.write(rounded)
    done = call("graph", CONFIGS["dqn"], *sets(graph=scratch("rounded.yaml")), expect=2)
    check("only gradients are exchanged in bf16, and 'local' is of type params" in done.stderr, done.stderr)


def main():
    with Scratch() as scratch:
        check_messages(scratch)
        check_sent(lambda folder: scratch("sent_" + folder))
        for name in CONFIGS:
            here = lambda folder, name=name: scratch(f"{name}_{folder}")  # noqa: E731
            check_ways(here, "ways", local(name, **SHORT, **DILOCO, strategy__policy_lag=1), WAYS)
            check_alone(here, name)
            check_rounds(here, name)
            check_learning(here, name)
            check_learning(lambda folder, here=here: here("diloco_" + folder), name, **DILOCO)
            check_kills(scratch, name, CONFIGS[name], dict(DILOCO, graph=f"graphs/{name}_local.yaml", env__stop_value="1e9",
                                                           max_train_iter=3000), (1, 2, 4), 2)


main()
