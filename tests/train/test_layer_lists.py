#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nets that a run file describes as a list of layers: DI-engine's short form and the same list end in the same bits;
other lists train with DQN, PPO and behaviour cloning, on vectors and on pixels, with batch norm too, to the same bits on
any number of ranks and after kills; IMPALA's residual net makes updates."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import CONFIG, ROOT, Scratch, call, check, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
IMPALA = os.path.join(ROOT, "configs/pixel_pong_ppo_impala.yaml")

LAYERS = "[{dense: 48}, tanh, layer_norm, {residual: [{dense: {out: 48}}, gelu]}, {dense: 24}, relu]"
DUELING = "{q: {type: dueling, layers: [{dense: 16}, tanh]}}"
DQN = dict(env__stop_value="1e9", max_train_iter=120, world__shards=4, policy__model__layers=LAYERS,
           policy__model__heads=DUELING)
ACTOR_CRITIC = "{policy: {type: categorical}, value: {type: dense, layers: [{dense: 8}, gelu]}}"
ON_POLICY = dict(config=PPO, world__shards=4, env__stop_value="1e9", max_train_iter=24, policy__collect__n_sample=64,
                 policy__learn__batch_size=16, policy__learn__microbatch=8, policy__model__layers=LAYERS,
                 policy__model__heads=ACTOR_CRITIC)
PIXELS = dict(config=IMPALA, world__shards=2, max_train_iter=4, env__stop_value="1e9", env__collector_env_num=2,
              env__evaluator_env_num=1, env__n_evaluator_episode=1, env__max_evaluator_step=40,
              policy__collect__n_sample=8, policy__learn__batch_size=4, policy__learn__microbatch=2,
              policy__learn__epoch_per_collect=2)
WAYS = [dict(ranks=2), dict(ranks=4, runtime__scheduler="eager", strategy__bucket_mb=0.02),
        dict(runtime__executor="sequential")]

# The short form's defaults as a list, by policy.type.
SHORT = [
    (dict(config=CONFIG, max_train_iter=80, env__stop_value="1e9"),
     "[{dense: 128}, relu, {dense: 128}, relu, {dense: 64}, relu]",
     "{q: {type: dueling, layers: [{dense: 64}, relu]}}"),
    (dict(config=PPO, max_train_iter=24, env__stop_value="1e9"),
     "[{dense: 64}, relu, {dense: 64}, relu, {dense: 128}, relu]",
     "{value: {type: dense, layers: [{dense: 128}, relu]}, policy: {type: categorical, layers: [{dense: 128}, relu]}}"),
    (dict(config=os.path.join(ROOT, "configs/pixel_pong_dqn_ddp.yaml"), max_train_iter=8, env__stop_value="1e9",
          policy__learn__batch_size=16, env__evaluator_env_num=1, env__n_evaluator_episode=1,
          env__max_evaluator_step=40, policy__model__encoder_hidden_size_list="[16,32,32,64]"),
     "[{conv: {channels: 16, kernel: 8, stride: 4}}, relu, {conv: {channels: 32, kernel: 4, stride: 2}}, relu, "
     "{conv: {channels: 32, kernel: 3}}, relu, flatten, {dense: 64}]",
     "{q: {type: dueling, layers: [{dense: 64}, relu]}}"),
]


def check_short_form(scratch):
    for number, (fixed, layers, heads) in enumerate(SHORT):
        short = train(scratch(f"short{number}"), **fixed)["param_hash"]
        listed = train(scratch(f"list{number}"), policy__model__layers=layers, policy__model__heads=heads, **fixed)
        check(listed["param_hash"] == short, f"{fixed}: the list ends in {listed['param_hash']}, not {short}")
        if "type: categorical" in heads:  # which follows from the actions
            heads = heads.replace("type: categorical, ", "").replace("type: dense, ", "")
            check("type" not in heads, heads)
            found = train(scratch("found"), policy__model__layers=layers, policy__model__heads=heads, **fixed)
            check(found["param_hash"] == short, f"heads without types end in {found['param_hash']}, not {short}")
    print(f"{len(SHORT)} short forms and their lists end in the same bits")


def check_clone(scratch):
    """A net without and one with batch norm, which needs the sums of all shards."""
    train(scratch("teacher"), **dict(DQN, max_train_iter=40))
    call("record", CONFIG, "--weights", scratch("teacher/ckpt/iteration_40/policy.safetensors"), "--transitions", "300",
         "--out", scratch("demos"), "--quiet", "--set", f"policy.model.layers={LAYERS}", "--set",
         f"policy.model.heads={DUELING}")
    clone = dict(config=CLONE, world__shards=4, env__stop_value="1e9", max_train_iter=30, policy__learn__batch_size=16,
                 policy__collect__data_path=scratch("demos"), policy__model__heads="{policy: {type: categorical}}")
    hashes = [check_ways(scratch, "clone", dict(clone, policy__model__layers=LAYERS), WAYS),
              check_ways(scratch, "norm", dict(clone, graph=os.path.join(ROOT, "configs/graphs/bc_norm.yaml"),
                                         policy__model__layers=f"[batch_norm, {LAYERS[1:-1]}, batch_norm]"), WAYS)]
    check(hashes[0] != hashes[1], "batch norm changed nothing")


def main():
    with Scratch() as scratch:
        check_short_form(scratch)
        check_ways(scratch, "dqn", DQN, WAYS)
        check_ways(scratch, "ppo", ON_POLICY, WAYS)
        check_ways(scratch, "impala", PIXELS, [dict(ranks=2), WAYS[2]])
        check_clone(scratch)
        check_kills(scratch, "kills", CONFIG, dict(DQN, max_train_iter=1000), (1, 2, 4), 2)


if __name__ == "__main__":
    main()
