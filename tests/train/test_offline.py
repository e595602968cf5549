#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Offline learning, end to end: DQN learns CartPole, is recorded, and is cloned to 195 again. The same bits on 1, 2 and
4 ranks, whatever schedulers, workers, windows, parts and slots, for every way to deal an uneven data set; pixels
too; and mistakes that name what is wrong."""

import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, result, sets, train  # noqa: E402
from ways import draw_ways, take_share  # noqa: E402

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
PIXELS = os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml")

FACTORS = {
    "ranks": [1, 2, 4],
    "runtime__scheduler": ["eager", "lws", "ws", "random", "modular-prio", "modular-ws"],
    "runtime__workers": [1, 2, 4],
    "runtime__max_inflight_iterations": [1, 2, 4],
    "strategy__bucket_mb": [25, 0.02],
    "strategy__shard_optimizer_above_mb": [1000, 0],
    "strategy__batch_buffers": [1, 3],
    "runtime__executor": ["starpu", "sequential"],
}


def record(weights, out, transitions, *arguments, config=CONFIG):
    call("record", config, "--weights", weights, "--transitions", str(transitions), "--out", out, "--quiet",
         *arguments)


# -- The main path ---------------------------------------------------------------------------------

def check_main_path(scratch):
    train(scratch("dqn"))
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("demos"), 10000)
    updates = []
    for ranks in (1, 2):
        outcome = train(scratch(f"clone{ranks}"), config=CLONE, ranks=ranks,
                        policy__collect__data_path=scratch("demos"))
        check(outcome["reason"] == "solved" and outcome["eval_value"] >= 195, f"not cloned: {outcome}")
        check(outcome["env_step"] == 0, "cloning stepped envs")
        updates.append(outcome["train_iter"])
    best = scratch("clone1/ckpt/best/policy.safetensors")
    said = call("eval", CLONE, "--weights", best, "--episodes", "20").stdout
    check(float(said.split()[1]) >= 195, f"the cloned policy: {said}")
    print(f"cloned in {updates} updates")
    for name in ("evaluator", "learner", "sampler"):
        check(os.path.isfile(scratch(f"clone1/log/{name}/{name}_logger.txt")), f"no log of the {name}")


def check_limits(scratch):
    """Epochs are counted: 1000 transitions over 2 shards in batches of 64 are 8 batches."""
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("small"), 1000)
    for ranks, epochs in ((1, 3), (2, 2)):
        outcome = train(scratch(f"epochs{ranks}"), config=CLONE, ranks=ranks, world__shards=2, env__stop_value="1e9",
                        policy__learn__train_epoch=epochs, policy__collect__data_path=scratch("small"))
        check((outcome["reason"], outcome["train_iter"]) == ("limit", 8 * epochs), f"{epochs} epochs: {outcome}")
    call("bench", CLONE, "--strategies", "serial", "--updates", "60", "--warmup", "20", "--repeats", "1", "--quiet",
         *sets(policy__collect__data_path=scratch("small")))


# -- Bits ------------------------------------------------------------------------------------------

def check_same_bits(scratch):
    """1003 transitions on 4 shards leave a short batch and, by the tail, padding or a shard with less."""
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("odd"), 1003, "--epsilon", "0.3")
    fixed = dict(config=CLONE, world__shards=4, env__stop_value="1e9", max_train_iter=120,
                 policy__learn__batch_size=24, policy__learn__microbatch=8,
                 policy__collect__data_path=scratch("odd"))
    hashes = {}
    for number, tail in enumerate(("pad", "drop_last", "uneven")):
        fixed["policy__learn__sampler__tail"] = tail
        reference = train(scratch(tail), **fixed)["param_hash"]
        hashes[tail] = reference
        for i, row in enumerate(take_share(draw_ways(FACTORS, number, 12 if tail == "pad" else 6), tail)):
            found = train(scratch(f"{tail}{i}"), **fixed, **row)["param_hash"]
            check(found == reference, f"{tail}, {row}: param_hash {found}, not {reference}")
        for strategy in ("bucketed", "pipelined"):
            found = train(scratch(f"{tail}-{strategy}"), "--strategy", strategy, ranks=2, **fixed)["param_hash"]
            check(found == reference, f"{tail}, {strategy}: {found}, not {reference}")
        again = train(scratch(f"{tail}-again"), config=scratch(f"{tail}/total_config.yaml"))
        check(again["param_hash"] == reference, "the effective config does not re-run as it is")
    hashes["plain"] = train(scratch("plain"), **fixed, policy__learn__sampler__shuffle="false")["param_hash"]
    check(len(set(hashes.values())) == 4, f"ways to deal end alike: {hashes}")
    print(f"the same bits for every tail: {hashes}")
    a, b = (result(scratch(name)) for name in ("pad", "pad-again"))
    for key in set(a) - {"command", "start_time", "end_time", "finish_time", "wall_s"}:
        check(a[key] == b[key], f"result.json: {key} is {a[key]} and {b[key]}")


def check_empty_shard(scratch):
    """Of 3 transitions on 4 shards, one shard has none: it weighs nothing, and nobody waits for it."""
    record(scratch("dqn/ckpt/best/policy.safetensors"), scratch("three"), 3)
    fixed = dict(config=CLONE, world__shards=4, env__stop_value="1e9", max_train_iter=20,
                 policy__collect__data_path=scratch("three"), policy__learn__sampler__tail="uneven")
    found = {ranks: train(scratch(f"three{ranks}"), ranks=ranks, **fixed)["param_hash"] for ranks in (1, 2, 4)}
    check(len(set(found.values())) == 1, f"3 transitions on 4 shards: {found}")


def check_pixels(scratch):
    """Frames stacked by index, a convolutional net."""
    small = dict(policy__model__encoder_hidden_size_list="[8,8,16]", env__stop_value="1e9")
    updates = train(scratch("pong"), config=PIXELS, max_train_iter=1, policy__collect__n_sample=64,
                    **small)["train_iter"]
    record(scratch(f"pong/ckpt/iteration_{updates}/policy.safetensors"), scratch("frames"), 600, "--epsilon", "0.5",
           *sets(**small), config=PIXELS)
    fixed = dict(config=PIXELS, graph=os.path.join(ROOT, "configs/graphs/bc.yaml"), policy__type="bc",
                 policy__nstep=1,
                 strategy="{}", world__shards=2, max_train_iter=12, policy__learn__batch_size=32,
                 policy__learn__microbatch=16, policy__collect__data_path=scratch("frames"),
                 policy__eval__evaluator__eval_freq=1000000, env__evaluator_env_num=1,
                 env__n_evaluator_episode=1, **small)
    ways = [dict(), dict(ranks=2, strategy__shard_optimizer_above_mb=0), dict(runtime__workers=2, strategy__bucket_mb=0.01),
            dict(runtime__executor="sequential", strategy__batch_buffers=2)]
    found = [train(scratch(f"pixels{i}"), **fixed, **way)["param_hash"] for i, way in enumerate(ways)]
    check(len(set(found)) == 1, f"cloning from pixels: {found}")


def check_moved(scratch):
    """A run goes on with its data set elsewhere, and with no other one."""
    fixed = dict(config=CLONE, world__shards=2, env__stop_value="1e9", runtime__checkpoint_interval_s=1e-6)
    paths = {name: scratch(name) for name in ("small", "moved", "odd")}
    shutil.copytree(paths["small"], paths["moved"])
    train(scratch("moving"), max_train_iter=20, policy__collect__data_path=paths["small"], **fixed)
    here = dict(fixed, max_train_iter=40, policy__collect__data_path=paths["moved"])
    found = train(scratch("moving"), "--resume", **here)["param_hash"]
    check(found == train(scratch("still"), **here)["param_hash"], "a moved data set gives another run")
    other = {**here, "max_train_iter": 60, "policy__collect__data_path": paths["odd"]}
    done = call("run", other.pop("config"), "--dir", scratch("moving"), "--resume", *sets(**other), expect=2)
    check(re.search(r"dataset is \w+, 1003 transitions now, but \w+, 1000 transitions in the checkpoint", done.stderr), done.stderr)


# -- Mistakes --------------------------------------------------------------------------------------

def refused(scratch, expected, *arguments, **keys):
    done = call("run", CLONE, "--dir", scratch("never"), *sets(**keys), *arguments, expect=2)
    check(all(word in done.stderr for word in expected), f"{keys}: {done.stderr}, not {expected}")
    check(not os.path.exists(scratch("never")), "a refused run left a directory")


def check_mistakes(scratch):
    demos, name = scratch("small"), "transitions-00001-of-00001.safetensors"
    path = "policy__collect__data_path"
    refused(scratch, ["/no/such", "No such file"], **{path: "/no/such"})
    refused(scratch, ["--set:1:26: "], **{path: "''"})
    refused(scratch, [scratch("dqn"), "runner record"], **{path: scratch("dqn")})
    shutil.copytree(demos, scratch("short"))
    with open(scratch(f"short/{name}"), "r+b") as file:
        file.truncate(os.path.getsize(scratch(f"short/{name}")) // 2)
    refused(scratch, [f"short/{name}", "truncated"], **{path: scratch("short")})
    os.rename(scratch(f"short/{name}"), scratch("short/transitions-00002-of-00002.safetensors"))
    refused(scratch, ["short/transitions-00001-of-00002.safetensors is missing"], **{path: scratch("short")})
    refused(scratch, ["env.type pixel_pong", "env.type cartpole"], **{path: scratch("frames")})
    refused(scratch, ["cartpole"], **{path: demos, "env__type": "pixel_pong"})
    refused(scratch, ["env.options {}", "{velocities: true}", "env.options.evaluator"],
            **{path: demos, "env__options": "{velocities: true}"})
    train(scratch("evaluated"), config=CLONE, max_train_iter=2, policy__collect__data_path=demos,
          env__options="{evaluator: {velocities: true}}")
    refused(scratch, ["of 1 step"], **{path: demos, "policy__nstep": 3})
    refused(scratch, ["policy.type must be bc"], **{path: demos, "policy__type": "dqn"})
    refused(scratch, ["pad, drop_last, uneven"], **{path: demos, "policy__learn__sampler__tail": "drop"})
    refused(scratch, ["3 transitions, of which 4 shards get none"],
            **{path: scratch("three"), "policy__learn__sampler__tail": "drop_last", "world__shards": 4})


def main():
    with Scratch() as scratch:
        check_main_path(scratch)
        check_limits(scratch)
        check_same_bits(scratch)
        check_empty_shard(scratch)
        check_pixels(scratch)
        check_moved(scratch)
        check_mistakes(scratch)


main()
