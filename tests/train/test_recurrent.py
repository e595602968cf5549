#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent policies: the shipped run file learns CartPole without velocities where a net without a state does not; gru
and lstm end in the same bits on any number of ranks and after kills; a net's state goes on from step to step in
evaluations and in `runner eval`."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, result, sets, train  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

GRU = os.path.join(ROOT, "configs/cartpole_hidden_ppo_gru.yaml")
FORGETFUL = "[{dense: 64}, tanh, {dense: 64}, tanh]"
LSTMS = "[{lstm: 24}, {lstm: {hidden: 16}}]"
HEADS = "{policy: {type: categorical, layers: [{gru: 8}]}, value: {type: dense, layers: [{dense: 8}, tanh]}}"
# Six collects of two epochs of two minibatches, of two microbatches of two sequences each.
SHORT = dict(config=GRU, world__shards=4, env__stop_value="1e9", max_train_iter=24, env__collector_env_num=4,
             policy__collect__n_sample=64, policy__collect__unroll_len=8, policy__learn__batch_size=32,
             policy__learn__microbatch=16, policy__learn__epoch_per_collect=2, policy__eval__evaluator__eval_freq=8)
WAYS = [dict(ranks=2), dict(ranks=4, runtime__scheduler="eager", strategy__bucket_mb=0.02),
        dict(runtime__executor="sequential", policy__collect__overlap_act_step="true"),
        dict(policy__collect__env_groups=2)]


def outputs(scratch, rows):
    """What `runner eval` prints for these observations."""
    import numpy as np
    from safetensors.numpy import save_file
    save_file({"obs": np.asarray(rows, np.float32)}, scratch("obs.safetensors"))
    return call("eval", GRU, "--weights", scratch("lstms/ckpt/iteration_24/policy.safetensors"), "--obs",
                scratch("obs.safetensors"), *sets(policy__model__layers=LSTMS, policy__model__heads=HEADS)
                ).stdout.splitlines()


def check_eval(scratch):
    """Episodes are those of the evaluation in the run, and observations are the steps of one sequence."""
    weights = scratch("learns/ckpt/best/policy.safetensors")
    text = call("eval", GRU, "--weights", weights, "--episodes", "10", "--json").stdout
    found = [episode["return"] for episode in json.loads(text)["episodes"]]
    check(found == result(scratch("learns"))["eval_value_raw"], text)
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        print(f"`runner eval --obs` is not tried: {error}; scripts/venv makes the environment for it")
        return
    rows = [[0.1, 0.2], [-0.3, 0.1], [0.1, 0.2]]
    whole = outputs(scratch, rows)
    check(outputs(scratch, rows[:1]) == whole[:1] and outputs(scratch, rows[:2]) == whole[:2], "a row has no past")
    check(whole[0] != whole[2], "a state changes nothing")


def check_learning(scratch):
    learnt = train(scratch("learns"), config=GRU, max_env_step=600000)
    check(learnt["eval_value"] >= 450, f"a gru reaches {learnt['eval_value']}")
    forgetful = train(scratch("forgets"), config=GRU, max_env_step=150000, policy__model__layers=FORGETFUL)
    check(forgetful["eval_value"] < 200, f"a net without a state reaches {forgetful['eval_value']}")
    print(f"return with a gru {learnt['eval_value']}, without a state {forgetful['eval_value']}")


def main():
    with Scratch() as scratch:
        lstms = dict(SHORT, policy__model__layers=LSTMS, policy__model__heads=HEADS)
        hashes = [check_ways(scratch, "gru", SHORT, WAYS), check_ways(scratch, "lstms", lstms, WAYS),
                  check_ways(scratch, "once", dict(SHORT, policy__recompute_adv="false"), WAYS[1:2]),
                  check_ways(scratch, "whole", dict(SHORT, policy__collect__unroll_len=0), WAYS[1:2])]
        check(len(set(hashes)) == len(hashes), f"a setting changed nothing: {hashes}")
        check_kills(scratch, "kills", GRU, dict({key: value for key, value in SHORT.items() if key != "config"},
                                                max_train_iter=800), (1, 2, 4), 2)
        check_learning(scratch)
        check_eval(scratch)


main()
