#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Gymnasium's own tests of environments, vectors and wrappers demand (its folder tests/ at 1.4), of heddle's."""

import copy
import importlib.util
import os
import pickle
import sys
import types
import warnings
from unittest import mock

from heddle_package import heddle, raises
from runner import Scratch, check

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode
from heddle import registration

ORIGINALS = {"Acrobot": "Acrobot-v1", "CartPole": "CartPole-v0", "MountainCar": "MountainCar-v0",
             "MountainCarContinuous": "MountainCarContinuous-v0", "Pendulum": "Pendulum-v1"}
IDS = [f"heddle/{name}-v0" for name in registration.BUILTIN]
CARTPOLE, CAR, PONG = "heddle/CartPole-v0", "heddle/MountainCar-v0", "heddle/PixelPong-v0"
BLINK = os.path.join(os.path.dirname(os.environ["HEDDLE_INFER_LIBRARY"]), "tests/plugins/heddle_env_blink.so")
EXPECTED = ("A Box observation space m", "For Box action spaces, we recommend")  # warnings about spaces, as of originals


def same(a, b):
    """Equal values of equal types, arrays to the bit."""
    return data_equivalence(a, b, exact=True)


def make_raw(name, **options):
    return gymnasium.make(name, disable_env_checker=True, **options).unwrapped


# -- Environments, after tests/envs/test_envs.py -------------------------------------------------------


def check_api(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(make_raw(name), skip_render_check=True)
    for warning in caught:
        check(any(text in str(warning.message) for text in EXPECTED), f"{name}: {warning.message}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gymnasium.make(name) as env:
            env.reset()
            env.step(env.action_space.sample())


def check_determinism(name):
    one, two = make_raw(name), make_raw(name)
    check(same(one.reset(seed=0), two.reset(seed=0)), f"{name}: first observations of one seed")
    one.action_space.seed(0)
    for _ in range(50):
        action = one.action_space.sample()
        found = one.step(action)
        check(same(found, two.step(action)), f"{name}: steps of one seed")
        check(found[0] in one.observation_space, f"{name}: {found[0]} is not in {one.observation_space}")
        if found[2] or found[3]:
            check(same(one.reset(seed=0), two.reset(seed=0)), f"{name}: episodes of one seed")


def play(env, actions):
    """What follows, through the ends of episodes."""
    found = []
    for action in actions:
        found.append(env.step(action))
        if not isinstance(env, gymnasium.vector.VectorEnv) and (found[-1][2] or found[-1][3]):
            found.append(env.reset())
    return found


def check_copies(env):
    """A copy and a pickle of an environment amid an episode go on as it does, and do not touch it."""
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(60)]
    env.reset(seed=123)
    play(env, actions[:25])
    state, copied = pickle.dumps(env), copy.deepcopy(env)
    loaded = pickle.loads(state)
    expected = play(loaded, actions)
    for other in (copied, env, pickle.loads(state)):
        check(same(play(other, actions), expected), f"{env}: a copy goes on differently")
    check(loaded.np_random_seed == env.np_random_seed, f"{env}: a copy has the seed {loaded.np_random_seed}")
    check(same(loaded.reset(seed=7), env.reset(seed=7)), f"{env}: a copy starts elsewhere")
    fresh = gymnasium.make_vec(CARTPOLE, 2)
    check(same(copy.deepcopy(fresh).reset(), fresh.reset()), "a copy before the first reset starts elsewhere")


def check_spec(name, original):
    env = gymnasium.make(name)
    stack = [type(layer).__name__ for layer in (env, env.env, env.env.env)]
    check(stack == ["TimeLimit", "OrderEnforcing", "PassiveEnvChecker"], f"{name}: {stack}")
    raises(gymnasium.error.ResetNeeded, "reset", env.step, env.action_space.sample())
    if original is None:
        return
    theirs = gymnasium.make(original)
    check(env.observation_space == theirs.observation_space, f"{name}: {env.observation_space}")
    check(env.action_space == theirs.action_space, f"{name}: {env.action_space}")
    check(env.metadata["render_fps"] == theirs.metadata["render_fps"], f"{name}: {env.metadata}")
    for field in ("max_episode_steps", "reward_threshold", "nondeterministic"):
        check(getattr(env.spec, field) == getattr(theirs.spec, field), f"{name}: {field} {getattr(env.spec, field)}")
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    check(again.spec == env.spec, f"{name}: a spec of JSON is {again.spec}")


def check_bounds_elsewhere():
    hidden = heddle.make("cartpole", options={"velocities": False}, frame_stack=3)
    whole = heddle.make("cartpole").observation_space
    check((hidden.observation_space.high == np.tile(whole.high[::2], 3)).all(), f"{hidden.observation_space}")


def check_time_limit():
    """The spec's limit and the environment's own are one: episodes end once, where they did."""
    env, raw, short = gymnasium.make(CAR), make_raw(CAR), gymnasium.make(CAR, max_episode_steps=9)
    for one, limit in ((env, 200), (raw, 200), (short, 9)):
        for _ in range(2):
            one.reset(seed=1)
            ends = [one.step(1)[2:4] for _ in range(limit)]
            check(ends == [(False, False)] * (limit - 1) + [(False, True)], f"a limit of {limit}: {ends}")


def check_seeding(name):
    env = gymnasium.make(name)
    env.reset(seed=42)
    check(env.np_random_seed == 42 and isinstance(env.np_random, np.random.Generator), f"{name}: {env.np_random_seed}")
    first = env.np_random.integers(1 << 60)
    env.reset()
    check(env.np_random_seed == 42, "a reset without a seed changes it")
    env.reset(seed=42)
    check(env.np_random.integers(1 << 60) == first, "np_random is of the seed")
    env = make_raw(name)
    start = env.reset()[0]
    check(same(env.reset(seed=env.np_random_seed)[0], start), f"{name}: np_random_seed of a start that drew it")


def check_actions(name):
    """After tests/envs/test_action_dim_check.py."""
    env, other = make_raw(name), make_raw(name)
    env.reset(seed=42)
    other.reset(seed=42)
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        raises(heddle.InputError, "expected 0 to", env.step, space.n)
        return
    for sign, bound in ((1, space.high), (-1, space.low)):
        check(same(env.step(bound)[0], other.step(bound + np.float32(100 * sign))[0]), f"{name}: {bound} and beyond")
    for wrong in (space.sample()[1:], np.append(space.sample(), np.float32(0)), 0.1, space.sample()[None]):
        raises(ValueError, "shape", env.step, wrong)


# -- Pictures ------------------------------------------------------------------------------------------


def check_pictures(name):
    env, listed = gymnasium.make(name, render_mode="rgb_array"), gymnasium.make(name, render_mode="rgb_array_list")
    env.action_space.seed(2)
    frames = []
    for one in (env, listed):
        one.reset(seed=5)
    for _ in range(4):
        frames.append(env.render())
        action = env.action_space.sample()
        env.step(action)
        listed.step(action)
    frames.append(env.render())
    check(frames[0].dtype == np.uint8 and frames[0].ndim == 3 and frames[0].shape[2] == 3, f"{name}: {frames[0].shape}")
    check(same(listed.render(), frames) and listed.render() == [], f"{name}: rgb_array_list")
    check(isinstance(heddle.make("cartpole", render_mode="rgb_array_list"), wrappers.RenderCollection), "of heddle.make")
    check(gymnasium.make(name).unwrapped.render() is None, "a picture without a mode")


def check_window():
    with mock.patch.dict(sys.modules, {"pygame": None}):
        raises(gymnasium.error.DependencyNotInstalled, "pip install pygame", heddle.make, "cartpole", render_mode="human")
    if importlib.util.find_spec("pygame") is None:
        print("pygame is not installed: no window was opened")
        return
    with mock.patch.dict(os.environ, {"SDL_VIDEODRIVER": "dummy"}):
        import pygame
        env, pictures = gymnasium.make(CARTPOLE, render_mode="human"), gymnasium.make(CARTPOLE, render_mode="rgb_array")
        for one in (env, pictures):
            one.reset(seed=1)
            one.step(1)
        shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
        check(env.render() is None and same(shown, pictures.render()), "the window shows another picture")
        check_env(make_raw(CARTPOLE))
        env.close()
        check(not pygame.display.get_init(), "the window is still open")


def check_video():
    """RecordVideo hands to moviepy, which is replaced here, the pictures of whole episodes."""
    clips = []

    class Clip:
        def __init__(self, frames, fps):
            clips.append((list(frames), fps))

        def write_videofile(self, *_, **__):
            pass

    names = ["moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"]
    modules = {name: types.ModuleType(name) for name in names}
    modules[names[-1]].ImageSequenceClip = Clip
    with Scratch() as scratch, mock.patch.dict(sys.modules, modules):
        for mode in ("rgb_array", "rgb_array_list"):
            env = gymnasium.make(CARTPOLE, render_mode=mode)
            env = wrappers.RecordVideo(env, scratch(mode), episode_trigger=lambda _: True)
            env.reset(seed=1)
            steps = 1
            while not any(env.step(1)[2:4]):
                steps += 1
            env.close()
            check(len(clips[-1][0]) == 1 + steps and clips[-1][1] == 50, f"{mode}: {len(clips[-1][0])} pictures")
    check(same(clips[0][0], clips[1][0]), "videos of rgb_array and rgb_array_list")


# -- Vectors, after tests/vector -----------------------------------------------------------------------


def make_pair(name, mode, other="sync", **options):
    """heddle's vector, and Gymnasium's of heddle's environments."""
    return (gymnasium.make_vec(name, 3, autoreset_mode=mode, **options),
            gymnasium.make_vec(name, 3, other, vector_kwargs={"autoreset_mode": mode}, **options))


def compare_steps(one, two, steps):
    """Two vectors by the same actions; returns the episodes that ended."""
    one.action_space.seed(3)
    episodes = 0
    for _ in range(steps):
        action = one.action_space.sample()
        found, expected = one.step(action), two.step(action)
        check(same(found[0], expected[0]), f"{one}: observations {found[0]}, {expected[0]}")
        check((found[1] == expected[1]).all() and found[1].dtype == np.float32, f"{one}: rewards {found[1]}, {expected[1]}")
        check(all(same(a, b) for a, b in zip(found[2:], expected[2:])), f"{one}: {found[2:]}, {expected[2:]}")
        ended = found[2] | found[3]
        episodes += ended.sum()
        if ended.any() and one.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            raises(heddle.Error, "have ended", one.step, action)
            starts = [each.reset(options={"reset_mask": ended.copy()}) for each in (one, two)]
            check(same(*starts), f"{one}: resets by a mask")
    return episodes


def check_vector(name, mode, limit, steps, other="sync"):
    one, two = make_pair(name, mode, other, **limit)
    for space in ("observation_space", "single_observation_space", "action_space", "single_action_space"):
        check(getattr(one, space) == getattr(two, space), f"{one}: {space}")
    check(one.metadata == {**two.metadata, "render_modes": ["rgb_array"]}, f"{one.metadata}")
    check(same(one.reset(seed=9), two.reset(seed=9)), f"{one}: reset")
    check(one.np_random_seed == two.np_random_seed == (9, 10, 11), f"{one}: seeds {one.np_random_seed}")
    check(compare_steps(one, two, steps) > 3, f"{one}: {mode} without ends of episodes")
    check(same(one.reset(), two.reset()), f"{one}: a reset without seeds")
    two.close()


def check_vectors():
    for name in IDS:
        for mode in AutoresetMode:
            check_vector(name, mode, {"max_episode_steps": 7}, 40)
    for mode in AutoresetMode:
        check_vector(CARTPOLE, mode, {}, 150)
        check_vector(CARTPOLE, mode.value, {}, 60, "async")
    check_vector(CARTPOLE, AutoresetMode.SAME_STEP, {"frame_stack": 2}, 60)
    raises(ValueError, "Later", gymnasium.make_vec, CARTPOLE, 2, autoreset_mode="Later")
    raises(heddle.InputError, "max_episode_steps", gymnasium.make_vec, CARTPOLE, 2, max_episode_steps=0)


def check_masks():
    envs = gymnasium.make_vec(CARTPOLE, 3, autoreset_mode=AutoresetMode.DISABLED)
    raises(heddle.InputError, "first reset", envs.reset, options={"reset_mask": np.array([True, True, False])})
    envs.reset(options={"reset_mask": np.array([True, True, True])})
    first, _ = envs.reset(seed=[0, 1, 2])
    for _ in range(3):
        obs = envs.step(np.array([0, 1, 0]))[0]
    found, _ = envs.reset(seed=[0, 1, 0], options={"reset_mask": np.array([True, True, False])})
    check(same(found[:2], first[:2]) and same(found[2], obs[2]), "a reset of some")
    check(envs.np_random_seed == (0, 1, 2), f"seeds {envs.np_random_seed}")
    for mask in ([True], [True] * 4, [[True] * 3], [False] * 3):
        raises(ValueError, "reset_mask of 3 bools", envs.reset, options={"reset_mask": np.array(mask)})
    for mask in ([1, 1, 0], [1.0, 1.0, 0.0]):
        raises(TypeError, "reset_mask of 3 bools", envs.reset, options={"reset_mask": np.array(mask)})
    for action in (np.zeros(2, int), np.zeros(4, int), 0):
        raises(ValueError, "shape", envs.step, action)


def check_members():
    """`call`, `get_attr` and `set_attr`, after tests/vector/test_sync_vector_env.py."""
    envs = gymnasium.make_vec(CARTPOLE, 4, render_mode="rgb_array")
    check(len(set(envs.np_random_seed)) == 4, f"seeds before the first reset: {envs.np_random_seed}")
    start, _ = envs.reset()
    check(same(envs.reset(seed=list(envs.np_random_seed))[0], start), "seeds that were drawn")
    envs.reset(seed=42)
    check(same(envs.call("render"), envs.render()) and len(envs.render()) == 4, "call")
    check(envs.get_attr("np_random_seed") == envs.np_random_seed == (42, 43, 44, 45), "get_attr")
    check(envs.get_attr("action_space") == (envs.single_action_space,) * 4, "get_attr of spaces")
    check([rng.integers(1 << 60) for rng in envs.np_random]
          == [gymnasium.utils.seeding.np_random(seed)[0].integers(1 << 60) for seed in (42, 43, 44, 45)], "np_random")
    envs.reset(seed=42)
    check(envs.np_random[1].integers(1 << 60) == gymnasium.utils.seeding.np_random(43)[0].integers(1 << 60), "of a new seed")
    envs.set_attr("weight", [9.81, 3.72, 8.87, 1.62])
    check(copy.deepcopy(envs).get_attr("weight") == (9.81, 3.72, 8.87, 1.62), "set_attr")
    envs.set_attr("weight", 1)
    check(envs.get_attr("weight") == (1,) * 4, "set_attr of one value")
    raises(ValueError, "4 environments", envs.set_attr, "weight", [1, 2])
    raises(AttributeError, "unknown", envs.get_attr, "unknown")
    raises(heddle.Error, "all of them together", envs.call, "step", 0)
    raises(heddle.Error, "reset_mask", envs.call, "reset")


def check_vector_specs():
    for kwargs in ({}, {"num_envs": 3}, {"render_mode": "rgb_array"}, {"max_episode_steps": 5}, {"vectorization_mode": "sync"},
                   {"autoreset_mode": "SameStep"}):
        envs = gymnasium.make_vec(CARTPOLE, **kwargs)
        again = gymnasium.make_vec(envs.spec)
        check(envs.spec == again.spec and type(envs) is type(again) and envs.num_envs == again.num_envs, f"{envs.spec}")
        check(envs.render_mode == again.render_mode and envs.metadata == again.metadata, f"{again.metadata}")


# -- Wrappers, after tests/wrappers/vector -------------------------------------------------------------


def play_alone(seed, episodes):
    """Return and length of each episode."""
    env, rows = wrappers.RecordEpisodeStatistics(gymnasium.make(CARTPOLE)), []
    env.reset(seed=seed)
    while len(rows) < episodes:
        _, _, terminated, truncated, info = env.step(1)
        if terminated or truncated:
            rows.append((info["episode"]["r"], info["episode"]["l"]))
            env.reset()
    return rows


def check_statistics(mode):
    """Against environments alone: over a SyncVectorEnv, which takes the reset_mask out of the options, this wrapper
    forgets the episodes of environments that are not reset."""
    envs, rows = wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec(CARTPOLE, 3, autoreset_mode=mode)), [[], [], []]
    envs.reset(seed=1)
    for _ in range(120):
        _, _, terminated, truncated, infos = envs.step(np.ones(3, int))
        ended = terminated | truncated
        for i in np.flatnonzero(ended):
            rows[i].append((infos["episode"]["r"][i], infos["episode"]["l"][i]))
        if ended.any() and mode is AutoresetMode.DISABLED:
            envs.reset(options={"reset_mask": ended.copy()})
    for i, row in enumerate(rows):
        check(len(row) > 3 and row == play_alone(1 + i, len(row)), f"{mode}: environment {i} has {row}")


def check_wrapped_vectors():
    """Wrappers of a vector against those of its environments; Gymnasium's of observations refuse SAME_STEP."""
    car = "heddle/MountainCarContinuous-v0"
    for name, wrapper, kwargs in ((CARTPOLE, "FlattenObservation", {}), (PONG, "ReshapeObservation", {"shape": (84, 4, 84)}),
                                  (PONG, "DtypeObservation", {"dtype": np.int32}), (car, "ClipAction", {}),
                                  (car, "RescaleAction", {"min_action": np.float32(1), "max_action": np.float32(2)}),
                                  (CARTPOLE, "ClipReward", {"min_reward": -0.25, "max_reward": 0.75})):
        for mode in (AutoresetMode.NEXT_STEP, *[AutoresetMode.SAME_STEP] * (not wrapper.endswith("Observation"))):
            one = getattr(wrappers.vector, wrapper)(gymnasium.make_vec(name, 3, autoreset_mode=mode), **kwargs)
            two = gymnasium.make_vec(name, 3, "sync", vector_kwargs={"autoreset_mode": mode},
                                     wrappers=(lambda env: getattr(wrappers, wrapper)(env, **kwargs),))
            check(one.observation_space == two.observation_space and one.action_space == two.action_space, wrapper)
            check(same(one.reset(seed=1), two.reset(seed=1)), f"{wrapper}: reset")
            compare_steps(one, two, 50)


def check_plugin_that_cannot_save():
    env = heddle.make(BLINK, options={"fail_save": True}, allow_plugins=True)
    env.reset(seed=1)
    raises(heddle.Error, "environment blink, number 0, save: the lamp cannot be moved", pickle.dumps, env)
    env.step(1)
    env.close()
    raises(heddle.Error, "were closed", copy.deepcopy, env)


def main():
    for name in IDS:
        check_api(name)
        check_determinism(name)
        check_spec(name, ORIGINALS.get(name[len("heddle/"):-len("-v0")]))
        check_seeding(name)
        check_actions(name)
        check_pictures(name)
        check_copies(make_raw(name))
        check_copies(gymnasium.make(name))
        for mode in AutoresetMode:
            if mode is not AutoresetMode.DISABLED:
                check_copies(gymnasium.make_vec(name, 3, autoreset_mode=mode, max_episode_steps=20))
    check_bounds_elsewhere()
    check_time_limit()
    check_window()
    check_video()
    check_vectors()
    check_masks()
    check_members()
    check_vector_specs()
    for mode in AutoresetMode:
        check_statistics(mode)
    check_wrapped_vectors()
    check_plugin_that_cannot_save()


if __name__ == "__main__":
    main()
