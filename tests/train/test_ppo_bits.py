#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The determinism contract of on-policy learning: ranks, schedulers, workers, windows, parts, slots,
executors and how collecting is cut into tasks end in one param_hash, with the plain graph, with statistics of
observations and a adapted rate, on pixels in bf16, and with a policy per shard. Groups and lags compute
something else, and that as reproducibly."""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from events import events, only  # noqa: E402
from runner import ROOT, Scratch, call, check, train  # noqa: E402
from ways import check_ways, covering_set  # noqa: E402

# Six collects of two epochs of four minibatches, of two microbatches each.
CARTPOLE = dict(config=os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml"), world__shards=4,
                env__stop_value="1e9", max_train_iter=48, policy__collect__n_sample=64,
                policy__learn__batch_size=16, policy__learn__microbatch=8,
                policy__eval__evaluator__eval_freq=16)
FAST = dict(CARTPOLE, graph=os.path.join(ROOT, "configs/graphs/ppo_fast.yaml"),
            policy__learn__lr_scheduler__type="kl", policy__recompute_adv="false",
            policy__collect__normalize_obs="true", policy__collect__normalize_reward="true")
ALONE = dict(CARTPOLE, graph=os.path.join(ROOT, "configs/graphs/ppo_nosync.yaml"))
PIXELS = dict(config=os.path.join(ROOT, "configs/pixel_pong_ppo_fast.yaml"), world__shards=4,
              env__stop_value="1e9", max_train_iter=16, env__collector_env_num=4,
              env__evaluator_env_num=2, env__n_evaluator_episode=2,
              policy__model__encoder_hidden_size_list="[16,32,32,64]",
              policy__learn__epoch_per_collect=2, policy__learn__batch_size=16,
              policy__learn__microbatch=8, policy__collect__n_sample=32,
              policy__collect__env_groups=2, policy__eval__evaluator__eval_freq=8)

FACTORS = {
    "ranks": [1, 2, 4],
    "runtime__scheduler": ["eager", "prio", "lws", "random", "modular-prio"],
    "runtime__workers": [1, 2, 4],
    "runtime__max_inflight_iterations": [1, 2, 4],
    "runtime__executor": ["starpu", "sequential"],
    "strategy__bucket_mb": [25, 0.02],
    "strategy__batch_buffers": [1, 3],
    "policy__collect__overlap_act_step": ["false", "true"],
}
SPLIT = dict(policy__collect__overlap_act_step="true")
WAYS = [dict(ranks=2), dict(ranks=4, strategy__bucket_mb=0.02, **SPLIT),
        dict(runtime__executor="sequential"), dict(runtime__workers=2, runtime__max_inflight_iterations=4, **SPLIT)]


def check_cartpole(scratch):
    ways, left = covering_set(FACTORS, 5, 100)
    check(left == 0, f"{left} pairs of settings are not covered")
    hashes = [
        check_ways(scratch, "cartpole", CARTPOLE, ways),
        check_ways(scratch, "groups", dict(CARTPOLE, policy__collect__env_groups=2), WAYS),
        check_ways(scratch, "once", dict(CARTPOLE, policy__recompute_adv="false"), WAYS[1:2]),
        check_ways(scratch, "uncut", dict(CARTPOLE, policy__collect__segment_at_done="false"), WAYS[1:2]),
        check_ways(scratch, "lags", dict(CARTPOLE, strategy__policy_lag=1, strategy__eval_lag=1),
             WAYS),
        check_ways(scratch, "accumulated", dict(CARTPOLE, policy__learn__batch_size=8,
                                          policy__learn__microbatch=0,
                                          policy__learn__accumulate=2), WAYS[1:2]),
        check_ways(scratch, "uneven", dict(CARTPOLE, policy__learn__batch_size=24,
                                     policy__learn__minibatch_tail="short"), WAYS[1:2]),
        check_ways(scratch, "fast", FAST, WAYS),
        check_ways(scratch, "fast lags", dict(FAST, strategy__policy_lag=1, strategy__eval_lag=1),
             WAYS[1:]),
    ]
    check(hashes[5] == hashes[0], "two batches accumulated are not one of two microbatches")
    check(len(set(hashes)) == len(hashes) - 1, f"a setting changed nothing: {hashes}")
    logs = [events(only(os.path.join(folder, "log/serial"))) for folder in sorted(glob.glob(scratch("fast_[0-9]")))]
    first = events(only(scratch("fast/log/serial")))
    check(logs and all(log == first for log in logs) and len(first) > 10, "the events differ, or are few")


def check_alone(scratch):
    """Nothing is shared: ranks and other shards change nothing for shard 0, and one shard alone learns what
    one that shares with nobody does."""
    hashes = [check_ways(scratch, "nosync", ALONE, WAYS),
              check_ways(scratch, "one", dict(ALONE, world__shards=1), []),
              check_ways(scratch, "uneven one", dict(ALONE, world__shards=1, policy__learn__batch_size=24,
                                               policy__learn__microbatch=8), []),
              check_ways(scratch, "uneven all", dict(CARTPOLE, world__shards=1,
                                               policy__learn__batch_size=24), [])]
    check(hashes[0] == hashes[1], f"other shards change shard 0: {hashes}")
    check(hashes[2] == hashes[3], f"a shard alone learns by other bits: {hashes}")


def check_pixels(scratch):
    hashes = [check_ways(scratch, "pixels", PIXELS, WAYS)]
    hashes.append(check_ways(scratch, "pixels f32", dict(PIXELS, runtime__precision="f32"), WAYS[:1]))
    check(len(set(hashes)) == len(hashes), "precision changed nothing")


def check_values(scratch):
    """Values that acting computed, of a few rows at a time, are those of a pass over blocks of samples."""
    with open(os.path.join(ROOT, "configs/graphs/ppo_fast.yaml"), encoding="utf-8") as file:
        graph = file.read()
    check(graph.count("values: collected") == 1, "the graph computes all values anew")
    with open(scratch("anew.yaml"), "w", encoding="utf-8") as file:
        file.write(graph.replace("values: collected", "values: computed"))
    ways = {"dense": FAST, "pixels": PIXELS, "pixels f32": dict(PIXELS, runtime__precision="f32")}
    for name, keys in ways.items():
        hashes = [train(scratch(f"{name} {graph}"), **dict(keys, **more))["param_hash"]
                  for graph, more in (("kept", {}), ("anew", dict(graph=scratch("anew.yaml"))))]
        check(hashes[0] == hashes[1], f"{name}: values that are kept are others: {hashes}")


def check_counts(scratch):
    """Returns enter their statistics once an epoch, or once a collect where they are not computed anew: with 256 of
    them at a time, 1100 are passed in the third collect of two epochs, or in the fifth."""
    with open(os.path.join(ROOT, "configs/graphs/ppo.yaml"), encoding="utf-8") as file:
        graph = file.read() + "  - stop:      {reads: [return_scale], if: return_scale.count > 1100, reason: limit}\n"
    with open(scratch("counts.yaml"), "w", encoding="utf-8") as file:
        file.write(graph)
    for recompute, updates in (("true", 24), ("false", 40)):
        found = train(scratch(f"counts {recompute}"), **dict(CARTPOLE, graph=scratch("counts.yaml"), max_train_iter=80,
                                                            policy__recompute_adv=recompute))
        check(found["train_iter"] == updates, f"recompute_adv {recompute}: {found['train_iter']} updates")


def check_plan():
    """That split groups are what is tested."""
    plan = call("graph", CARTPOLE["config"], "--set", "policy.collect.env_groups=2", "--set",
                "policy.collect.overlap_act_step=true").stdout
    check("2 items x 126 stages" in plan, f"the plan:\n{plan}")


def main():
    check_plan()
    with Scratch() as scratch:
        check_counts(scratch)
        check_cartpole(scratch)
        check_alone(scratch)
        check_pixels(scratch)
        check_values(scratch)


main()
