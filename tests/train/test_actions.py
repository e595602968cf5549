#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Actions of real numbers and of several choices, from end to end: PPO learns the pendulum; ranks, executors
and a resumed run end in the same bits; recordings hold the actions."""

import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, environment, result, sets, skip, train  # noqa: E402
from ways import check_ways  # noqa: E402

PENDULUM = os.path.join(ROOT, "configs/pendulum_ppo.yaml")
BLINK = {"env__type": "blink", "env__options__longest": 9, "env__stop_value": "1e9", "max_train_iter": 12,
         "policy__model__obs_shape": "[1,36,40]", "policy__model__encoder_hidden_size_list": "[4,4,8]",
         "policy__model__actor_head_hidden_size": 0, "policy__model__critic_head_hidden_size": 0,
         "policy__collect__n_sample": 64, "policy__learn__batch_size": 16}
KINDS = {"reals": dict(BLINK, env__options__reals="true", policy__model__action_shape=2),
         "several": dict(BLINK, env__options__several="true", policy__action_space="discrete",
                         policy__model__action_shape="[3,2]")}
SHORT = {"env__stop_value": "1e9", "max_train_iter": 160, "policy__collect__n_sample": 128,
         "policy__eval__evaluator__eval_freq": 80}
WAYS = [dict(ranks=2), dict(ranks=4), dict(runtime__executor="sequential"),
        dict(ranks=2, policy__collect__overlap_act_step="true")]
DEVIATIONS = {"deviations by the net": dict(SHORT, policy__model__sigma_type="conditioned"),
              "a list of layers": dict(SHORT, policy__model__layers="[{dense: 32}, tanh, {dense: 32}, tanh]",
                                       policy__model__heads="{policy: {type: gaussian}, value: {type: dense}}")}


def check_learning(scratch):
    run = train(scratch("learned"), config=PENDULUM)
    print(f"pendulum: return {run['eval_value']:.0f} after {run['env_step']} steps")
    check(run["reason"] == "solved" and run["env_step"] <= 200000, f"not learned: {run}")


def check_resumed(scratch, reference):
    """A run that stops half way goes on from its checkpoint as if it had not."""
    train(scratch("half"), config=PENDULUM, **{**SHORT, "max_train_iter": 80})
    call("run", PENDULUM, "--dir", scratch("half"), "--resume", *sets(**SHORT))
    found = result(scratch("half"))["param_hash"]
    check(found == reference, f"the resumed run ends in {found}, not {reference}")


def read(path):
    with open(path, "rb") as file:
        bytes_ = file.read()
    length = struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8:8 + length])
    action = header["action"]
    begin, end = (8 + length + at for at in action["data_offsets"])
    return header["__metadata__"], action, bytes_[begin:end]


def check_recording(scratch):
    weights = scratch("learned/ckpt/best/policy.safetensors")
    call("record", PENDULUM, "--weights", weights, "--transitions", "800", "--epsilon", "0.5", "--out", scratch("data"))
    metadata, action, data = read(scratch("data/transitions-00001-of-00001.safetensors"))
    check(metadata["action_space"] == "continuous" and metadata["actions"] == "1", f"metadata {metadata}")
    check(action["dtype"] == "F32" and action["shape"] == [800], f"actions are {action}")
    torques = struct.unpack("<800f", data)
    check(len(set(torques)) > 700, "the actions are not real numbers")
    check(sum(abs(torque) <= 2 for torque in torques) > 300, "random actions are not within the bounds")


def main():
    if not shutil.which("cc"):
        skip("there is no compiler `cc`")
    with Scratch() as scratch:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", ROOT, "-o", scratch("heddle_env_blink.so"),
                        os.path.join(ROOT, "tests/tasks/plugin/blink.c")], check=True)
        check_learning(scratch)
        check_recording(scratch)
        check_resumed(scratch, check_ways(scratch, "pendulum", dict(SHORT, config=PENDULUM), WAYS))
        for name, keys in DEVIATIONS.items():
            check_ways(scratch, name, dict(keys, config=PENDULUM), WAYS)
        for name, keys in KINDS.items():
            check_ways(scratch, name, dict(keys, config=PENDULUM, env=environment(HEDDLE_PLUGINS=scratch.path)), WAYS)


if __name__ == "__main__":
    main()
