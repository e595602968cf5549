#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nets that a run file describes as a list of layers: DI-engine's short form and the same list end in the same bits;
other lists train with DQN, PPO and behaviour cloning, on vectors and on pixels, with batch norm too, to the same bits on
any number of ranks and after kills; IMPALA's residual net makes updates; mistakes are told at their place, with the
shapes on both sides."""

import os
import re
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

# A model, the text in it at whose place the mistake is told (its last occurrence), and what is told.
MISTAKES = [
    ("{layers: [{dense: 8}, rellu], heads: {q: {type: dense}}}", "rellu", "expected a layer (dense, conv, relu"),
    ("{layers: [{dense: wide}], heads: {q: {type: dense}}}", "wide", "an integer in [1, 1000000] for out of dense"),
    ("{layers: [{dense: 0}], heads: {q: {type: dense}}}", "0", "an integer in [1, 1000000] for out of dense"),
    ("{layers: [{dense: {width: 3}}], heads: {q: {type: dense}}}", "width", "dense has no field 'width' (it has out)"),
    ("{layers: [{conv: {channels: 3}}], heads: {q: {type: dense}}}", "conv", "conv needs its field kernel"),
    ("{layers: [{relu: 3}], heads: {q: {type: dense}}}", "3", "relu has no fields"),
    ("{layers: [dense], heads: {q: {type: dense}}}", "dense]", "dense needs its field out"),
    ("{layers: [residual], heads: {q: {type: dense}}}", "residual", "residual needs a list of layers"),
    ("{layers: [{dense: 3, relu: 4}], heads: {q: {type: dense}}}", "{dense: 3", "expected one layer with its fields"),
    ("{layers: relu, heads: {q: {type: dense}}}", "relu", "expected a list of layers, found relu"),
    ("{layers: [{dense: 8}, {conv: {channels: 4, kernel: 3}}], heads: {q: {type: dense}}}", "conv",
     "conv takes [channels, height, width] of at least 3 x 3 pixels (kernel 3, padding 0); it gets [8] from dense"),
    ("{layers: [tanh, {residual: [{dense: 5}]}], heads: {q: {type: dense}}}", "residual",
     "residual adds its input, [4], to the output of its layers, [5]; both shapes must be equal"),
    ("{layers: [{dense: 8}]}", "[{dense", "a net of policy.type dqn needs a head q of type dense|dueling"),
    ("{layers: [{dense: 8}], heads: {policy: {type: categorical}}}", "policy", "policy.type dqn has no head 'policy'"),
    ("{layers: [{dense: 8}], heads: {q: {type: categorical}}}", "categorical",
     "heads.q: expected the type dense|dueling, found categorical"),
    ("{layers: [{dense: 8}], heads: {q: {type: dense, hidden: 3}}}", "hidden", "a head's keys type and layers"),
    ("{heads: {q: {type: dense}}}", "{q:", "policy.model.heads needs policy.model.layers"),
]
OPTIONS = [
    (["runtime.precision=bf16"], "--set:1:19: precision: bf16 is for convolutional nets of DI-engine's form"),
    (["policy.type=ppo"], "has no head 'q'"),
    (["policy.type=a2c"], "has no head 'q'"),
    (["policy.model.heads.q.type=dense"], "policy.model.heads can only be set as a whole"),
]


def check_short_form(scratch):
    for number, (fixed, layers, heads) in enumerate(SHORT):
        short = train(scratch(f"short{number}"), **fixed)["param_hash"]
        listed = train(scratch(f"list{number}"), policy__model__layers=layers, policy__model__heads=heads, **fixed)
        check(listed["param_hash"] == short, f"{fixed}: the list ends in {listed['param_hash']}, not {short}")
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


def place(text, at):
    """line:column of the last `at`."""
    offset = text.rindex(at)
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"


def check_mistakes(scratch):
    with open(CONFIG, encoding="utf-8") as file:
        good = file.read()
    good = re.sub("(graph|strategy): ", rf"\1: {ROOT}/configs/", good)
    for model, at, expected in MISTAKES:
        text = re.sub("model: .*", lambda _: "model: {obs_shape: 4, action_shape: 2, " + model[1:], good)
        before, _, behind = text.partition("model: ")
        with open(scratch("config.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        stderr = call("graph", scratch("config.yaml"), expect=2).stderr
        line = behind.partition("\n")[0]
        where = f"{scratch('config.yaml')}:{place(before + 'model: ' + line, at)}"
        check(f"error: {where}: " in stderr and expected in stderr, f"{model}: expected at {where}: {expected}\n{stderr}")
    for options, expected in OPTIONS:
        given = [word for option in options for word in ("--set", option)]
        stderr = call("graph", CONFIG, *given, "--set", "policy.model.layers=[{dense: 8}, tanh]", "--set",
                      "policy.model.heads={q: {type: dense}}", expect=2).stderr
        check(expected in stderr, f"{options}: expected {expected}\n{stderr}")
    print(f"{len(MISTAKES) + len(OPTIONS)} mistakes are told")


def main():
    with Scratch() as scratch:
        check_mistakes(scratch)
        check_short_form(scratch)
        check_ways(scratch, "dqn", DQN, WAYS)
        check_ways(scratch, "ppo", ON_POLICY, WAYS)
        check_ways(scratch, "impala", PIXELS, [dict(ranks=2), WAYS[2]])
        check_clone(scratch)
        check_kills(scratch, "kills", CONFIG, dict(DQN, max_train_iter=1000), (1, 2, 4), 2)


if __name__ == "__main__":
    main()
