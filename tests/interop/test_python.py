#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package `heddle`: outputs are those of `runner eval --obs` bit by bit, environments those of the program
and of gymnasium, and what is wrong raises exceptions."""

import copy
import ctypes
import json
import os
import pickle
import re
import shutil
import threading

from heddle_package import heddle, raises
from runner import ROOT, Scratch, call, check, result, skip, train

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from safetensors.numpy import load_file, save_file
from heddle import registration

ROWS = 130


def config_of(name):
    return os.path.join(ROOT, f"configs/{name}.yaml")


def same(a, b):
    """Equal bits: comparisons of numbers would take 0 and -0 for one."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# -- Policies ------------------------------------------------------------------------------------------


def find_weights(directory):
    """Those that the run names as its best."""
    return os.path.join(directory, result(directory)["weights"])


def eval_obs(scratch, directory, obs):
    """The outputs that `runner eval --obs` prints, which name a float exactly."""
    save_file({"obs": obs}, scratch("obs.safetensors"))
    printed = call("eval", os.path.join(directory, "total_config.yaml"), "--weights",
                   find_weights(directory), "--obs", scratch("obs.safetensors")).stdout
    return np.array([line.split() for line in printed.splitlines()], np.float64).astype(np.float32)


def check_policy(scratch, directory, obs):
    """The outputs of a batch, also of other shapes and types, against those of the program."""
    policy = heddle.load(directory)
    outputs = eval_obs(scratch, directory, obs)
    check(outputs.shape == (ROWS, policy.outputs), f"{outputs.shape} outputs")
    check(same(policy.forward(obs), outputs), "the outputs are not those of runner eval --obs")
    check(same(policy.forward(obs.astype(np.float64)), outputs), "outputs of doubles differ")
    check(same(policy.forward(np.asfortranarray(obs)), outputs), "outputs of another layout differ")
    folded = policy.forward(obs.reshape(13, 10, *policy.observation_shape))
    check(same(folded.reshape(ROWS, -1), outputs), "outputs of a batch of two dimensions differ")
    check(policy.forward(obs[:0]).shape == (0, policy.outputs), "no rows have no outputs")
    check(policy.forward(obs[0]).shape == (policy.outputs,), "one observation has outputs [1, ...]")
    return policy, outputs


def check_threads(policy, obs):
    """Against one thread alone, after it: passes are prepared when they are first needed."""
    found = {}

    def compute(number):
        for rows in range(1, ROWS, 17):
            found[number, rows] = policy.forward(obs[:rows])

    threads = [threading.Thread(target=compute, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [rows for (_, rows), outputs in found.items() if not same(outputs, policy.forward(obs[:rows]))]
    check(len(found) == 4 * len(range(1, ROWS, 17)), "a thread has failed")
    check(not wrong, f"threads computed other outputs of {wrong} rows")


def play(policy, directory, episodes):
    """Greedy returns from the seeds of `runner eval --json`, against what it says; one row at a time, as bits of nets
    with convolutions depend on the rows of a pass."""
    told = json.loads(call("eval", os.path.join(directory, "total_config.yaml"), "--weights",
                           find_weights(directory), "--episodes", str(episodes),
                           "--json").stdout)["episodes"]
    envs = policy.make_vec(len(told))
    obs, _ = envs.reset(seed=[episode["seed"] for episode in told])
    returns, playing = np.zeros(len(told)), np.ones(len(told), bool)
    while playing.any():
        obs, reward, terminated, truncated, _ = envs.step(np.stack([policy.act(one) for one in obs]))
        returns += reward * playing
        playing &= ~(terminated | truncated)
    envs.close()
    check(returns.tolist() == [episode["return"] for episode in told], f"played {returns}, and runner says {told}")


def check_cartpole(scratch):
    directory = scratch("cartpole")
    train(directory, world__shards=1, max_train_iter=80, env__stop_value="1e9", policy__eval__evaluator__eval_freq=40)
    obs = np.random.default_rng(1).normal(size=(ROWS, 4)).astype(np.float32)
    policy, outputs = check_policy(scratch, directory, obs)
    check(same(policy.act(obs), outputs.argmax(axis=1)), "actions are not those of the largest value")
    check(policy.act(obs[0]) == outputs[0].argmax() and policy.act(obs[0]).shape == (), "the action of one observation")
    check(policy.action_space == gymnasium.spaces.Discrete(2), f"{policy.action_space}")
    check(not policy.can_draw, "a policy of values can draw")
    raises(heddle.InputError, "distribution", policy.act, obs, seed=1)
    check_threads(policy, obs)
    play(policy, directory, 5)
    check_pickles(policy, obs)
    return directory


def check_pickles(policy, obs):
    """Of a policy, and of environments of its run file."""
    check(copy.deepcopy(policy) is policy, "a copy of what is read-only")
    check(same(pickle.loads(pickle.dumps(policy)).forward(obs), policy.forward(obs)), "a policy of a pickle")
    envs = policy.make_vec(3)
    found, _ = envs.reset(seed=1)
    loaded = pickle.loads(pickle.dumps(envs))
    for _ in range(30):
        action = policy.act(found)
        found = envs.step(action)[0]
        check(same(loaded.step(action)[0], found), "environments of a policy, from a pickle")


def check_pendulum(scratch):
    directory = scratch("pendulum")
    train(directory, config=config_of("pendulum_ppo"), world__shards=1, max_train_iter=80)
    obs = np.random.default_rng(2).normal(size=(ROWS, 3)).astype(np.float32)
    policy, outputs = check_policy(scratch, directory, obs)
    check(policy.outputs == 3 and policy.can_draw, "outputs of a policy of real numbers")
    check(same(policy.act(obs), np.ascontiguousarray(outputs[:, :1])), "actions are not the means")
    one = np.tile(obs[:1], (4000, 1))
    drawn = policy.act(one, seed=5)
    check(same(drawn, policy.act(one, seed=5)) and not same(drawn, policy.act(one, seed=6)), "draws and their seeds")
    mean, deviation = outputs[0, 0], np.exp(outputs[0, 1])
    check(abs(drawn.mean() - mean) < 5 * deviation / 4000 ** 0.5, "draws have another mean")
    check(abs(drawn.std() / deviation - 1) < 5 / 8000 ** 0.5, "draws have another deviation")
    raises(heddle.InputError, "seeds are from 0", policy.act, obs, seed=-1)
    play(policy, directory, 4)


def check_squashed(scratch):
    """Real numbers that tanh maps to the environment's bounds."""
    directory = scratch("squashed")
    train(directory, config=config_of("pendulum_sac"), world__shards=1, max_train_iter=40)
    obs = np.random.default_rng(6).normal(size=(ROWS, 3)).astype(np.float32)
    policy, outputs = check_policy(scratch, directory, obs)
    check(policy.actions.low == (-2,) and policy.actions.high == (2,), f"{policy.actions}")
    error = np.abs(policy.act(obs) - 2 * np.tanh(outputs[:, :1])).max()
    check(error < 1e-6, f"actions are {error} away from tanh of the means, scaled")
    drawn = policy.act(obs, seed=1)
    check(policy.can_draw and np.abs(drawn).max() <= 2 and np.ptp(drawn - policy.act(obs)) > 0.1, "draws")
    play(policy, directory, 4)
    check_bounds_elsewhere(directory, obs, policy.act(obs))


def check_bounds_elsewhere(directory, obs, wanted):
    """A policy acts by the bounds of its run where its environment is not at hand, and not at all without them."""
    path = os.path.join(directory, "total_config.yaml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    plugin = re.sub(r"(\n  type: )pendulum\b", r"\1elsewhere", text, count=1)
    check(plugin != text, text)
    for config in (plugin, re.sub(r"  action_bounds:.*\n.*\n.*\n", "", plugin)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        check(same(heddle.load(directory).act(obs), wanted), "actions of the same weights and bounds")
    weights = find_weights(directory)
    check(same(heddle.load(weights).act(obs), wanted), "actions of a file of weights")
    bare = os.path.join(directory, "bare.safetensors")
    save_file(load_file(weights), bare)
    raises(heddle.InputError, "policy.action_bounds", heddle.load, directory, bare)
    raises(heddle.InputError, "does not say which policy", heddle.load, bare)
    obs = obs.copy()
    obs.reshape(-1)[1] = np.nan
    raises(heddle.InputError, "number 1 of observation 0 is nan", heddle.load(weights).act, obs)


def predict_episodes(policy, config, weights, episodes):
    """Greedy returns of a policy with a state, against those of `runner eval --json`. Environments play on until each has
    played two episodes, so that they begin at different steps."""
    told = json.loads(call("eval", config, "--weights", weights, "--episodes", str(episodes), "--json").stdout)["episodes"]
    envs = policy.make_vec(len(told))
    obs, _ = envs.reset(seed=[episode["seed"] for episode in told])
    state, begins, ended, returns = None, np.ones(len(told), bool), np.zeros(len(told), bool), [[0.0] for _ in told]
    while min(map(len, returns)) < 3:
        action, state = policy.predict(obs, state, begins)
        for i in np.flatnonzero(begins):
            check(action[i] == policy.predict(obs[i])[0], "the state is not zero where an episode begins")
        obs, reward, terminated, truncated, _ = envs.step(action)
        begins, ended = ended, terminated | truncated
        for i, number in enumerate(reward):
            returns[i][-1] += number
            if ended[i]:
                returns[i].append(0.0)
    envs.close()
    check([one[0] for one in returns] == [episode["return"] for episode in told], f"played {returns}, runner says {told}")


def check_recurrent(scratch):
    """A gru: `predict` step by step is `runner eval --obs`, and plays the episodes of `runner eval`."""
    directory, config = scratch("recurrent"), config_of("cartpole_hidden_ppo_gru")
    train(directory, config=config, max_train_iter=48, env__stop_value="1e9")
    policy = heddle.load(directory)
    check(policy.state_size == 64, f"a state of {policy.state_size}")
    obs = np.random.default_rng(7).normal(size=(ROWS, 2)).astype(np.float32)
    outputs, state = eval_obs(scratch, directory, obs), None
    for i, row in enumerate(obs):
        out, state = policy.forward_step(row, state)
        check(same(out, outputs[i]), f"step {i} has other outputs than in runner eval --obs")
    first, after = policy.forward_step(obs[0])
    again, _ = policy.forward_step(obs[0], state, True)
    check(same(first, again) and not same(first, policy.forward_step(obs[0], state)[0]), "episode_start")
    batch, states = policy.forward_step(obs.reshape(13, 10, 2))
    check(same(batch[0, 0], first) and same(states[0, 0], after), "a batch of two dimensions")
    drawn = policy.predict(np.tile(obs[:1], (500, 1)), seed=3)[0]
    check(0 < drawn.mean() < 1 and same(drawn, policy.predict(np.tile(obs[:1], (500, 1)), seed=3)[0]), "draws")
    raises(heddle.InputError, "state", policy.act, obs)
    raises(heddle.InputError, "state", policy.forward, obs)
    raises(heddle.InputError, "(130, 64), found (130, 63)", policy.predict, obs, np.zeros((130, 63)))
    raises(heddle.InputError, "episode_start", policy.predict, obs, None, [True, False])
    predict_episodes(policy, os.path.join(directory, "total_config.yaml"),
                     find_weights(directory), 5)


def check_pong(scratch):
    directory = scratch("pong")
    train(directory, config=config_of("pixel_pong_dqn_ddp"), world__shards=1, max_train_iter=2,
          env__n_evaluator_episode=1, env__evaluator_env_num=1, env__max_evaluator_step=60,
          policy__other__replay_buffer__replay_buffer_size=2000)
    frames = np.random.default_rng(3).integers(0, 256, (ROWS, 4, 84, 84), np.uint8)
    floats = frames.astype(np.float32) / np.float32(255)
    policy, outputs = check_policy(scratch, directory, floats)
    bytes_too = policy.forward(frames)
    error = np.abs(bytes_too - outputs).max() / np.abs(outputs).max()
    print(f"outputs of bytes and of bytes divided by 255 differ by at most {error:.1e} of the largest")
    # Floats are rounded once more, to 2^-24 of a pixel, or in bf16 to 2^-9 where a pixel lies between two numbers.
    check(error < 1e-2, "outputs of bytes differ")
    raises(heddle.InputError, "divided by 255", policy.forward, frames.astype(np.float32))
    raises(TypeError, "are uint8, found int64", policy.forward, frames.astype(np.int64))
    openmp = ctypes.CDLL("libgomp.so.1")
    openmp.omp_set_num_threads(3)
    policy.forward(frames[:2])
    check(openmp.omp_get_max_threads() == 3, "a call leaves another number of OpenMP's threads")
    check_threads(heddle.load(directory), frames)
    play_frames(policy)


def check_normalised(scratch):
    """Observations of bytes that are normalised by statistics of theirs, and an actor with a critic."""
    directory = scratch("normalised")
    train(directory, config=config_of("pixel_pong_ppo_fast"), world__shards=1, max_train_iter=4,
          env__n_evaluator_episode=1, env__evaluator_env_num=1, env__max_evaluator_step=60,
          policy__collect__n_sample=192, policy__learn__batch_size=96)
    frames = np.random.default_rng(4).integers(0, 256, (ROWS, 4, 84, 84), np.uint8)
    policy, _ = check_policy(scratch, directory, frames.astype(np.float32) / np.float32(255))
    check(policy.outputs == 7 and policy.can_draw, "outputs of an actor with a critic")
    check(policy.action_space.contains(policy.act(frames[0])), "an action outside of its space")


def play_frames(policy):
    """Frames of a policy's environments: the observations that its net takes."""
    envs = policy.make_vec(2, render_mode="rgb_array")
    obs, _ = envs.reset(seed=3)
    check(envs.single_observation_space == policy.observation_space, f"{envs.single_observation_space}")
    for _ in range(20):
        before, obs = obs, envs.step(policy.act(obs))[0]
    check((obs[:, :3] == before[:, 1:]).all(), "frames are not stacked, oldest first")
    check((envs.render()[1] == obs[1, 3][..., None]).all(), "the picture is not the last frame")


# -- Environments --------------------------------------------------------------------------------------


def advance(envs, action, ended):
    """A step by gymnasium's rules of AutoresetMode.NEXT_STEP, of environments one by one."""
    rows = []
    for i, env in enumerate(envs):
        if ended[i]:
            rows.append((env.reset()[0], 0.0, False, False))
        else:
            rows.append(env.step(action[i])[:4])
    return [np.array(column) for column in zip(*rows)]


def check_vector(name):
    """A vector against single environments, over several episodes each."""
    envs = heddle.make_vec(name, 3)
    single = [heddle.make(name) for _ in range(3)]
    envs.action_space.seed(4)
    obs, _ = envs.reset(seed=10)
    check((obs == np.stack([env.reset(seed=10 + i)[0] for i, env in enumerate(single)])).all(), f"{name}: reset")
    ended, episodes = np.zeros(3, bool), 0
    for _ in range(450):
        action = envs.action_space.sample()
        found, expected = envs.step(action)[:4], advance(single, action, ended)
        check(all((a == b).all() for a, b in zip(found, expected)), f"{name}: a step of a vector is another")
        ended = found[2] | found[3]
        episodes += ended.sum()
    check(episodes > 0 or name in ("acrobot", "mountain_car_continuous", "pixel_pong"), f"{name}: no episode ended")
    check(envs.reset(seed=10)[0].tobytes() == obs.tobytes(), f"{name}: the same seed starts elsewhere")


def check_against_gymnasium(name, theirs):
    """Gymnasium's own environment, from the same seeds by the same actions."""
    ours, other = heddle.make(name), gymnasium.make(theirs).unwrapped
    other.action_space.seed(5)
    for seed in (0, 7, 123456):
        a, b = ours.reset(seed=seed)[0], other.reset(seed=seed)[0]
        check((a == b).all(), f"{theirs}: starts at {b}, {name} at {a}")
        for _ in range(100):
            action = other.action_space.sample()
            one, two = ours.step(action), other.step(action)
            check(np.allclose(one[0], two[0], atol=1e-5) and abs(one[1] - two[1]) < 1e-5 and one[2] == two[2],
                  f"{theirs}: {two[:3]}, and {name} {one[:3]}")
            if one[2] or one[3]:
                break


def check_environments():
    for name, arguments in registration.BUILTIN.items():
        env = gymnasium.make(f"heddle/{name}-v0", render_mode="rgb_array")
        check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=1)
        check(env.render().dtype == np.uint8 and np.ptp(env.render()) > 0, f"{name}: no picture")
        env.close()
        vector = gymnasium.make_vec(f"heddle/{name}-v0", num_envs=2, vectorization_mode="vector_entry_point")
        check(vector.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP, "autoreset_mode")
        check(vector.reset(seed=1)[0] in vector.observation_space, f"{name}: an observation outside of its space")
        vector.close()
        check_vector(arguments["source"])
    for name, theirs in (("cartpole", "CartPole-v1"), ("acrobot", "Acrobot-v1"), ("mountain_car", "MountainCar-v0"),
                         ("mountain_car_continuous", "MountainCarContinuous-v0"), ("pendulum", "Pendulum-v1")):
        check_against_gymnasium(name, theirs)


# -- Mistakes ------------------------------------------------------------------------------------------


def check_files(scratch, directory):
    weights = find_weights(directory)
    with open(weights, "rb") as file:
        whole = file.read()
    raises(FileNotFoundError, "nothing/here", heddle.load, "nothing/here")
    raises(FileNotFoundError, "there is no none", heddle.load, directory, "none")
    raises(heddle.InputError, "total_config.yaml cannot be read", heddle.load, os.path.dirname(weights))
    raises(heddle.InputError, "weights", heddle.load, config_of("cartpole_dqn_ddp"))
    raises(heddle.InputError, "tensor 'encoder.init.weight' is 128 x 4", heddle.load, config_of("acrobot_dqn"), weights)
    for length in (0, 7, 8, 100, 1000, len(whole) // 2, len(whole) - 1):
        with open(scratch("cut.safetensors"), "wb") as file:
            file.write(whole[:length])
        raises(heddle.InputError, "safetensors file", heddle.load, directory, scratch("cut.safetensors"))
    with open(scratch("changed.safetensors"), "wb") as file:
        file.write(whole[:-1] + bytes([whole[-1] ^ 1]))
    raises(heddle.InputError, "is damaged", heddle.load, directory, scratch("changed.safetensors"))
    copy = scratch("copy")
    shutil.copytree(directory, copy)
    with open(os.path.join(copy, "total_config.yaml"), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(copy, "total_config.yaml"), "w", encoding="utf-8") as file:
        file.write(text.replace("action_shape:", "action_shap:"))
    line = text[:text.index("action_shape:")].count("\n") + 1
    raises(heddle.InputError, f"total_config.yaml:{line}:", heddle.load, copy)


def check_arguments(directory):
    policy = heddle.load(directory)
    for shape in ((), (5,), (3, 5), (4, 3), (4, 1)):
        raises(heddle.InputError, "have the shape (4,)", policy.act, np.zeros(shape, np.float32))
    raises(TypeError, "found <U1", policy.act, np.array(list("abcd")))
    raises(TypeError, "found complex128", policy.act, np.zeros(4, complex))
    envs = heddle.make_vec("cartpole", 3)
    raises(heddle.InputError, "reset", envs.step, [0, 0, 0])
    envs.reset(seed=0)
    raises(heddle.InputError, "action 1 is 2, expected 0 to 1", envs.step, [0, 2, 0])
    raises(heddle.InputError, "action 0 is -1", envs.step, [-1, 0, 0])
    raises(heddle.InputError, "shape (3,), found (2,)", envs.step, [0, 1])
    raises(TypeError, "found float64", envs.step, [0.0, 1.0, 0.5])
    raises(heddle.InputError, "expected 3 seeds, found 2", envs.reset, seed=[1, 2])
    raises(heddle.InputError, "seeds are from 0", envs.reset, seed=-1)
    raises(heddle.InputError, "reset_mask of 3 bools", envs.reset, options={"reset_mask": np.ones(2, bool)})
    envs.step([0, 1, 0])
    envs.close()
    raises(heddle.Error, "were closed", envs.step, [0, 1, 0])
    env = heddle.make("cartpole")
    raises(heddle.Error, "call reset", env.step, 0)
    raises(heddle.InputError, "no environment 'cartpol'", heddle.make, "cartpol")
    raises(heddle.InputError, "allowed", heddle.make, "atari", env_id="PongNoFrameskip-v4")
    raises(heddle.InputError, "unknown option 'speed'", heddle.make, "pixel_pong", options={"speed": 2})
    raises(heddle.InputError, "expected 1 to", heddle.make_vec, "cartpole", 0)
    raises(heddle.InputError, "render mode", heddle.make, "cartpole", render_mode="ansi")
    raises(heddle.InputError, "says which environments", policy.make_vec, 2, frame_stack=4)


# -- Documents -----------------------------------------------------------------------------------------


def check_document(scratch, directory):
    """The Python of the how-to, beside a run directory of the name that it has there."""
    shutil.copytree(directory, scratch("cartpole_dqn_ddp"))
    with open(os.path.join(ROOT, "docs/howto/python.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    before = os.getcwd()
    os.chdir(scratch.path)
    exec("\n".join(blocks), {})  # pylint: disable=exec-used
    os.chdir(before)
    check(len(blocks) == 4, f"{len(blocks)} blocks of Python")


def main():
    with Scratch() as scratch:
        directory = check_cartpole(scratch)
        check_pendulum(scratch)
        check_squashed(scratch)
        check_recurrent(scratch)
        check_pong(scratch)
        check_normalised(scratch)
        check_environments()
        check_files(scratch, directory)
        check_arguments(directory)
        check_document(scratch, directory)


main()
