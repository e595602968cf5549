#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an update sees: a batch that is accumulated is one batch, with the same bits, for every algorithm; what an epoch
leaves out of a collect is told, and what cannot teach anything is refused."""

import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, sets, train  # noqa: E402

DQN = os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml")
PPO = os.path.join(ROOT, "configs/cartpole_ppo_ddp.yaml")
# Of each algorithm: a run file, and a batch that is accumulated so many times.
ALGORITHMS = {"dqn": ("cartpole_dqn_ddp", 16, 4, {}), "dqn_priority": ("cartpole_dqn_priority", 16, 4, {}),
              "qrdqn": ("cartpole_qrdqn", 16, 4, {}), "sac": ("pendulum_sac", 16, 4, {"policy__random_collect_size": 10}),
              "ppo": ("cartpole_ppo_ddp", 16, 4, {}), "a2c": ("cartpole_a2c_ddp", 20, 2, {}),
              "bc": ("cartpole_bc_ddp", 16, 4, {})}
KEYS = dict(world__shards=2, env__stop_value="1e9", max_train_iter=60, policy__eval__evaluator__eval_freq=1000)


def check_accumulated(scratch):
    for name, (config, batch, times, more) in ALGORITHMS.items():
        keys = {**KEYS, **more, "config": os.path.join(ROOT, f"configs/{config}.yaml")}
        if name == "bc":
            keys["policy__collect__data_path"] = scratch("demos")
        ways = {"accumulated": dict(policy__learn__batch_size=batch, policy__learn__accumulate=times),
                "at once": dict(policy__learn__batch_size=batch * times, policy__learn__microbatch=batch)}
        found = {way: train(scratch(f"{name} {way}"), **keys, **cut) for way, cut in ways.items()}
        for key in ("param_hash", "train_iter", "env_step"):
            values = {way: run[key] for way, run in found.items()}
            check(len(set(values.values())) == 1, f"{name}: {key} {values}")
    print(f"{', '.join(ALGORITHMS)}: an accumulated batch is one batch")


def say(scratch, config, expect=0, **keys):
    shutil.rmtree(scratch("said"), ignore_errors=True)
    return call("run", config, "--dir", scratch("said"), *sets(**KEYS | {"max_train_iter": 2} | keys), expect=expect).stderr


def check_told(scratch):
    said = say(scratch, PPO, policy__learn__batch_size=64, policy__learn__accumulate=2)
    check("a global batch is 2 x 128; an epoch uses 256 of 256 samples in 2 minibatches" in said, said)
    said = say(scratch, PPO, policy__learn__batch_size=64, policy__learn__accumulate=5)
    check("uses 64 of 256 samples in 1 minibatch;" in said and "192 samples" in said and "minibatch_tail" in said, said)
    said = say(scratch, PPO, policy__learn__batch_size=257, expect=2)
    check("policy.learn.batch_size: " in said and "1 of 256 samples" in said, said)
    say(scratch, PPO, policy__learn__batch_size=257, policy__learn__adv_norm="false")
    said = say(scratch, DQN, expect=2, policy__learn__accumulate=4,
               policy__other__replay_buffer__replay_buffer_size=100)
    check("which is 100, found 256 with policy.learn.accumulate: " in said, said)
    said = say(scratch, os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml"), policy__nstep=4)
    check("policy.nstep: no sample has 4 rewards" in said and "n_sample 32 is enough" in said, said)
    said = say(scratch, os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml"), policy__nstep=4, policy__collect__n_sample=32)
    check("warning" not in said, said)
    said = say(scratch, os.path.join(ROOT, "configs/cartpole_a2c_ddp.yaml"), policy__learn__value_norm="false")
    check("policy.learn.value_norm is not used by this run of a2c" in said, said)


def check_surplus(scratch):
    """Eight environments with n_sample 3: what is dropped is told and counted, and one hash on 1 and 2 ranks."""
    eight = dict(env__collector_env_num=8, policy__collect__n_sample=3)
    said = say(scratch, DQN, **eight)
    check("make 8 samples in a collect of n_sample 3, of which 5 are dropped, always of the last environments" in said, said)
    said = say(scratch, PPO, **eight, policy__collect__surplus="keep", expect=2)
    check("--set:" in said and "policy.collect.surplus: keep" in said, said)
    hashes = set()
    for surplus, dropped in (("first", True), ("turns", True), ("keep", False)):
        runs = [train(scratch(f"{surplus}{ranks}"), ranks=ranks, config=DQN, **KEYS | {"max_train_iter": 200}, **eight,
                      policy__collect__surplus=surplus) for ranks in (1, 2)]
        check(len({run["param_hash"] for run in runs}) == 1, f"{surplus}: {runs}")
        hashes.add(runs[0]["param_hash"])
        with open(scratch(f"{surplus}1/log/collector/collector_logger.txt"), encoding="utf-8") as file:
            counts = [float(count) for count in re.findall(r"total_dropped_sample_count +\| +([0-9.]+)", file.read())]
        check(bool(counts) == dropped and all(count > 0 for count in counts), f"{surplus}: {counts}")
    check(len(hashes) == 3, f"surpluses end in {hashes}")
    print("samples beyond n_sample are dropped in turns, or kept")


def main():
    with Scratch() as scratch:
        train(scratch("dqn"), max_train_iter=20, env__stop_value="1e9")
        call("record", DQN, "--weights",
             scratch("dqn/ckpt/iteration_20/policy.safetensors"), "--transitions", "500", "--out", scratch("demos"))
        check_accumulated(scratch)
        check_told(scratch)
        check_surplus(scratch)


main()
