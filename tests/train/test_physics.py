#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a replay holds is what the environment does: of batches that were drawn from it, which a run keeps when its loss
is no number, each transition is taken again by Gymnasium, or by the rule of a plug-in, from the stored state with the
stored action. Environments are built in, a plug-in, and Gymnasium's, with choices and with real actions."""

import json
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, environment, sets, skip  # noqa: E402

PYTHON = os.path.join(ROOT, "build/plugins/gymnasium/bin/python")
if not os.path.exists(PYTHON):
    skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
if os.environ.get("HD_PHYSICS") != "1":
    os.execve(PYTHON, [PYTHON, os.path.abspath(__file__)], dict(os.environ, HD_PHYSICS="1"))

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

# Parameters of a thousand in ten layers: a net overflows after its first update.
DEEP = "[" + ", ".join(["{dense: 32}, relu"] * 10) + "]"
DQN = {"config": "cartpole_dqn_ddp", "policy__learn__learning_rate": 1000,
       "policy__model__encoder_hidden_size_list": "[32,32,32,32,32,32,32,32,32,32]", "policy__model__obs_shape": "auto",
       "policy__model__action_shape": "auto"}
SAC = {"config": "pendulum_sac", "policy__learn__learning_rate_q": 1000, "policy__model__obs_shape": "auto",
       "policy__model__action_shape": "auto", "policy__random_collect_size": 250,
       "policy__critic": "{input: [obs, action], layers: %s, heads: {value: {type: dense}}}" % DEEP}
GYMNASIUM = {"env__type": "gymnasium", "env__options__python": os.path.dirname(os.path.dirname(PYTHON))}


def set_state(env, state):
    env.unwrapped.state = state
    if hasattr(env.unwrapped, "steps_beyond_terminated"):
        env.unwrapped.steps_beyond_terminated = None


def set_acrobot(env, obs):
    set_state(env, np.array([np.arctan2(obs[1], obs[0]), np.arctan2(obs[3], obs[2]), obs[4], obs[5]]))


# Of each environment: keys of the run, Gymnasium's id, and how an env gets the state of an observation.
ENVS = {
    "cartpole": (DQN, "CartPole-v1", set_state),
    "mountain_car": ({**DQN, "env__type": "mountain_car"}, "MountainCar-v0", set_state),
    "acrobot": ({**DQN, "env__type": "acrobot"}, "Acrobot-v1", set_acrobot),
    "pendulum": (SAC, "Pendulum-v1", lambda env, obs: set_state(env, (np.arctan2(obs[1], obs[0]), obs[2]))),
    "mountain_car_continuous": ({**SAC, "env__type": "mountain_car_continuous"}, "MountainCarContinuous-v0", set_state),
    "CartPole-v1": ({**DQN, **GYMNASIUM, "env__env_id": "CartPole-v1"}, "CartPole-v1", set_state),
    "Pendulum-v1": ({**SAC, **GYMNASIUM, "env__env_id": "Pendulum-v1"}, "Pendulum-v1",
                    lambda env, obs: set_state(env, (np.arctan2(obs[1], obs[0]), obs[2]))),
    "InvertedPendulum-v5": ({**SAC, **GYMNASIUM, "env__env_id": "InvertedPendulum-v5"}, "InvertedPendulum-v5",
                            lambda env, obs: env.unwrapped.set_state(obs[:2], obs[2:])),
}


def read_batch(folder):
    """The tensors of a batch that was kept."""
    name = sorted(os.listdir(os.path.join(folder, "failed")))[0]
    with open(os.path.join(folder, "failed", name), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    kinds = {"U8": np.uint8, "F32": np.float32, "I32": np.int32}
    found = {name: np.frombuffer(body[slice(*tensor["data_offsets"])], kinds[tensor["dtype"]]).reshape(tensor["shape"])
             for name, tensor in header.items() if name != "__metadata__"}
    return {**found, **{name: found[name].view(np.float32) for name in ("obs", "next_obs")}}


def draw_batch(directory, keys, env=None):
    config = os.path.join(ROOT, f"configs/{keys['config']}.yaml")
    more = {key: value for key, value in keys.items() if key != "config"}
    done = call("run", config, "--dir", directory, "--quiet",
                *sets(world__shards=1, env__stop_value="1e9", policy__eval__evaluator__eval_freq=10**6, **more), env=env,
                expect=1)
    check("the batch is kept in" in done.stderr, done.stderr)
    return read_batch(directory)


def scale(space, action):
    """An action of the policy, from -1 to 1, between the bounds."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    return (low + (np.atleast_1d(action).astype(np.float64) + 1) / 2 * (high - low)).astype(np.float32)


def check_env(scratch, name, keys, env_id, put):
    batch, env = draw_batch(scratch(name), keys), gymnasium.make(env_id)
    env.reset(seed=0)
    rows, moved = len(batch["action"]), 0
    for i in range(rows):
        put(env, batch["obs"][i].astype(np.float64))
        obs, reward, terminated, _, _ = env.unwrapped.step(scale(env.action_space, batch["action"][i]))
        error = np.abs(obs - batch["next_obs"][i]).max() / (1 + np.abs(obs).max())
        check(error < 1e-5, f"{name}: row {i} leads to {batch['next_obs'][i]}, but the env goes to {obs}")
        # MuJoCo's and CartPole's terminal states have a reward of their own in Gymnasium.
        check(abs(reward - batch["reward"][0, i]) < 1e-4 * (1 + abs(reward)),
              f"{name}: row {i} has the reward {batch['reward'][0, i]}, not {reward}")
        check(batch["done"][i] >= terminated, f"{name}: row {i} ends an episode, and is not done")
        moved += np.abs(batch["next_obs"][i] - batch["obs"][i]).max() > 0
    check(moved > rows / 2 and np.unique(batch["action"]).size > 1, f"{name}: nothing moves")
    print(f"{name}: {rows} transitions are the environment's")


def check_plugin(scratch):
    """The corridor of docs/howto/env.md: a cell to the left or to the right."""
    os.mkdir(scratch("plugins"))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}", "-o", scratch("plugins/heddle_env_corridor.so"),
                    os.path.join(ROOT, "kernels/envs/example/corridor.c")], check=True)
    batch = draw_batch(scratch("corridor"), {**DQN, "env__type": "corridor"},
                       environment(HEDDLE_PLUGINS=scratch("plugins")))
    before, after = batch["obs"].argmax(1), batch["next_obs"].argmax(1)
    check((after - before == np.where(batch["action"] == 1, 1, -1)).all(), f"{before} {batch['action']} {after}")
    check((batch["reward"][0] == (after == 8)).all() and (batch["done"] >= ((after == 0) | (after == 8))).all(), "ends")
    print(f"corridor: {len(after)} transitions are the environment's")


def main():
    with Scratch() as scratch:
        for name, row in ENVS.items():
            check_env(scratch, name, *row)
        check_plugin(scratch)


main()
