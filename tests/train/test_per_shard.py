#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A policy and an optimizer per shard, nothing averaged, as DI-engine's PPO does it: bits do not
depend on ranks or parts; with one shard they are those of the graph that averages; with several,
shards go their own ways, and shard 0's policy is what is shown to all."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, train  # noqa: E402

FIXED = dict(env__stop_value="1e9", max_train_iter=200, policy__learn__microbatch=32)
SHOWN = "  - broadcast: {every: $policy.eval.evaluator.eval_freq update, first: 0, " \
        "reads: [policy], writes: [shown]}\n"


def changed(text, *pairs):
    for old, new in pairs:
        check(text.count(old) == 1, f"the graph has no '{old}', or several")
        text = text.replace(old, new)
    return text


def make(scratch):
    """The config and graph of DQN without exchange; the path of the config."""
    with open(os.path.join(ROOT, "configs/graphs/dqn.yaml"), encoding="utf-8") as file:
        graph = file.read()
    graph = changed(
        graph,
        ("policy:        {type: params,", "policy:        {type: params, per: shard,"),
        ("target:        {type: params,", "target:        {type: params, per: shard,"),
        ("{type: adam_state,", "{type: adam_state, per: shard,"),
        ("  residual:      {type: residual, per: shard, of: policy, when: $strategy.error_feedback}  # what rounding took\n", ""),
        ("  mean_grad:     {type: grad, of: policy}\n",
         "  shown:         {type: params, bucket_mb: $strategy.bucket_mb}\n"),
        ("      - mean:      {exchange: $strategy.exchange_precision, reads: [grad], updates: [residual], writes: [mean_grad]}\n", ""),
        ("{reads: [mean_grad, schedule], updates: [policy,", "{reads: [grad], updates: [policy,"),
        ("placement: rank0, init: policy}", "placement: rank0, init: shown}"),
        ("iteration:\n", "iteration:\n" + SHOWN),
        ("reads: [policy, totals, obs_norm], updates: [eval_envs", "reads: [shown, totals, obs_norm], updates: [eval_envs"))
    with open(CONFIG, encoding="utf-8") as file:
        config = changed(file.read(), ("graph: graphs/dqn.yaml", "graph: alone.yaml"),
                         ("strategies/", os.path.join(ROOT, "configs/strategies/")))
    for name, text in (("alone.yaml", graph), ("config.yaml", config)):
        with open(scratch(name), "w", encoding="utf-8") as file:
            file.write(text)
    return scratch("config.yaml")


def main():
    with Scratch() as scratch:
        config = make(scratch)
        averaged = train(scratch("averaged"), world__shards=1, **FIXED)["param_hash"]
        alone = train(scratch("alone"), config=config, world__shards=1, **FIXED)["param_hash"]
        check(alone == averaged, f"one shard alone: {alone}, not {averaged}")
        found = {}
        for ranks, bucket_mb, workers in ((1, 25, 2), (1, 0.02, 4), (2, 25, 2), (2, 0.02, 1),
                                          (4, 25, 1), (4, 0.02, 2)):
            found[ranks, bucket_mb] = train(
                scratch(f"run{ranks}_{bucket_mb}"), config=config, ranks=ranks, world__shards=4,
                runtime__workers=workers, strategy__bucket_mb=bucket_mb, **FIXED)
        hashes = {key: run["param_hash"] for key, run in found.items()}
        check(len(set(hashes.values())) == 1, f"ranks and parts: {hashes}")
        values = {str(run["eval_value_raw"]) for run in found.values()}
        check(len(values) == 1, f"evaluations: {values}")
        shared = train(scratch("shared"), world__shards=4, **FIXED)["param_hash"]
        check(shared not in hashes.values(), "an average over four shards changed nothing")
        plan = call("graph", config, "--ranks", "2", "--rank", "1", "--set", "world.shards=4",
                    "--set", "strategy.bucket_mb=0.02").stdout
        check("adam [shard, 9 buckets]" in plan, plan)


main()
