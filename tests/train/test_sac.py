#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soft actor-critic: it learns the pendulum; ranks, executors, buckets and microbatches
on their ranks end in one param_hash; killed runs resume to the same bits; recordings hold what the environment took; and
what does not fit is told at its place, with the shapes on both sides."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from runner import ROOT, Scratch, call, check, sets, train  # noqa: E402
from test_actions import read  # noqa: E402
from test_resume import check_kills  # noqa: E402
from ways import check_ways  # noqa: E402

PENDULUM = os.path.join(ROOT, "configs/pendulum_sac.yaml")
GRAPH = os.path.join(ROOT, "configs/graphs/sac.yaml")
SHORT = dict(config=PENDULUM, env__stop_value="1e9", max_train_iter=160, policy__random_collect_size=64,
             policy__learn__microbatch=32, policy__eval__evaluator__eval_freq=80)
WAYS = [dict(ranks=2), dict(ranks=4, runtime__scheduler="eager"), dict(runtime__executor="sequential"),
        dict(ranks=2, strategy__bucket_mb=0.05, strategy__shard_optimizer_above_mb=0, runtime__workers=2)]

# A critic, the text in it at whose place the mistake is told (its last occurrence), and what is told.
CRITICS = [
    ("{input: [obs], layers: [{dense: 8}, relu], heads: {value: {type: dense}}}", "{input",
     "takes [3] and yields [1], but critics take [4], an observation of [3] joined with an action of [1] (input: [obs, "
     "action]), and yield [1]"),
    ("{input: [obs, state], layers: [{dense: 8}], heads: {value: {type: dense}}}", "state", "expected action in [obs"),
    ("{input: obs, layers: [{dense: 8}], heads: {value: {type: dense}}}", "obs", "expected [obs] or [obs, action], found"),
    ("{input: [obs, action], layers: [{dense: 8}, relu]}", "[{dense", "a net of policy.critic needs a head value of type"),
    ("{input: [obs, action], layers: [{dense: 8}], heads: {q: {type: dense}}}", "q:", "policy.critic has no head 'q'"),
    ("{input: [obs, action], layers: [{conv: {channels: 4, kernel: 3}}], heads: {value: {type: dense}}}", "conv",
     "it gets [4] from the observation"),
    ("{input: [obs, action], layers: [{embedding: {values: 4, width: 2}}, flatten], heads: {value: {type: dense}}}",
     "{input", "has an embedding or batch norm"),
    ("{inputs: [obs], layers: [relu]}", "inputs", "expected a net's keys input, layers and heads, found inputs"),
    ("{input: [obs, action]}", "{input", "policy.critic: a net needs a map with `layers` and `heads`"),
]

# A text of the graph, what replaces it, the text at whose place the mistake is told, and what is told.
GRAPHS = [
    ("net: policy.critic,", "net: policy.actor,", "policy.actor", "net: expected policy.model or policy.critic, found"),
    ("net: policy.critic, init: critic1", "init: critic1", "target1:", "'target1' and 'critic1' have different nets"),
    ("{type: grad, per: shard, of: policy}", "{type: grad, per: shard, of: policy, net: policy.critic}", "policy.critic}",
     "`net:` belongs to values of type params"),
    ("reads: [critic1_mean], updates: [critic1, critic1_adam]", "reads: [critic2_mean], updates: [critic1, critic1_adam]",
     "", "adam: 'critic2_mean' is made of 'critic2', not of 'critic1'"),
    ("learning_rate: $policy.learn.learning_rate_q", "learning_rate: $policy.learn.learning_rat_q",
     "$policy.learn.learning_rat_q", "learning_rate: expected a number or a key"),
    ("loss: sac, reads: [policy, critic1, critic2, temperature, batch]", "loss: sac, reads: [policy, critic1, critic2, batch]",
     "", "loss sac needs a temperature (port 'temperature')"),
    ("loss: sac, reads", "loss: dqn, reads", "", "loss dqn"),
]


def refused(expected, config=PENDULUM, **keys):
    done = call("graph", config, *sets(**keys), expect=2)
    check(expected in done.stderr, f"expected {expected} in:\n{done.stderr}")
    return done.stderr


def place_of(path, text, needle):
    line = next(number for number, line in enumerate(text.splitlines(), 1) if needle in line)
    return f"{os.path.basename(path)}:{line}:{text.splitlines()[line - 1].rindex(needle) + 1}: "


def check_critics():
    for critic, needle, expected in CRITICS:
        said = refused(expected, policy__critic=critic)
        place = f"--set:1:{len('policy.critic=') + critic.rindex(needle) + 1}: "
        check(place in said, f"expected the place {place} in:\n{said}")


def check_graphs(scratch):
    with open(GRAPH, encoding="utf-8") as file:
        text = file.read()
    for number, (old, new, needle, expected) in enumerate(GRAPHS):
        check(old in text, f"{GRAPH} has no {old}")
        path = scratch(f"graph_{number}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new, 1))
        said = refused(expected, graph=path)
        place = place_of(path, text.replace(old, new, 1), needle or new)
        check((place if needle else f"graph_{number}.yaml:") in said, f"expected the place {place} in:\n{said}")


def check_others():
    refused("pendulum_sac.yaml:15:19: policy.model.action_shape: policy.type dqn has an output for each action, so it "
            "cannot choose actions of 1 real number", policy__type="dqn", policy__model__layers="[]",
            policy__model__heads="{}", graph=os.path.join(ROOT, "configs/graphs/dqn.yaml"))
    refused("policy.type sac chooses real numbers (policy.action_space: continuous), not 2 actions", env__type="cartpole",
            policy__action_space="discrete", policy__model__obs_shape=4, policy__model__action_shape=2)
    refused("heads: a net of policy.type sac needs a head policy of type squashed_gaussian", policy__model__heads="{}")
    refused("heads.policy: expected the type squashed_gaussian, found categorical",
            policy__model__heads="{policy: {type: categorical}}")
    refused("policy.critic can only be set as a whole", policy__critic__input="[obs]")


def check_bits(scratch):
    wanted = check_ways(scratch, "ways", SHORT, WAYS)
    for key, value in (("policy__learn__auto_alpha", "false"), ("policy__collect__noise_repeat", 3),
                       ("policy__learn__target_theta", 0.1), ("policy__learn__learning_rate_q", 0.01)):
        other = train(scratch(key), **{**SHORT, key: value})
        check(other["param_hash"] != wanted, f"{key} has no effect")


def check_learning(scratch):
    run = train(scratch("pendulum"), config=PENDULUM)
    print(f"pendulum: return {run['eval_value']:.0f} after {run['env_step']} steps")
    check(run["reason"] == "solved" and run["env_step"] <= 20000, f"the pendulum is not learned: {run}")


def check_recording(scratch):
    """The recorded torques are those between the bounds of the environment, up to 2."""
    weights = scratch("pendulum/ckpt/best/policy.safetensors")
    call("record", PENDULUM, "--weights", weights, "--transitions", "800", "--epsilon", "0.5", "--out", scratch("data"))
    _, action, data = read(scratch("data/transitions-00001-of-00001.safetensors"))
    torques = memoryview(data).cast("f")
    check(action["shape"] == [800] and 1.5 < max(torques) <= 2 and -2 <= min(torques) < -1.5, "other torques")


def main():
    with Scratch() as scratch:
        check_critics()
        check_graphs(scratch)
        check_others()
        check_bits(scratch)
        check_learning(scratch)
        check_recording(scratch)
        keys = dict(env__stop_value="1e9", max_train_iter=1500, policy__random_collect_size=64, world__shards=4)
        check_kills(scratch, "sac", PENDULUM, keys, (1, 2, 4), 3)


main()
