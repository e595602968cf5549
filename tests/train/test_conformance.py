#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Environments of Gymnasium, MiniGrid, ALE and PettingZoo through the bridge, beside the same ones made and stepped by
Gymnasium and PettingZoo alone: from the same seeds and by the same actions, over several episodes, their observations,
rewards and ends have the same bits. The plug-in is called by its functions (kernels/envs/env.h). A run takes a share of
them, and all with HD_WHOLE=1; HD_ONLY is a regular expression of their names."""

import os
import re
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, check, skip  # noqa: E402
from ways import take_share  # noqa: E402

PLUGINS = os.path.join(os.path.dirname(os.environ.get("HD_RUNNER", os.path.join(ROOT, "build/runner"))), "plugins")
PYTHON = os.path.join(PLUGINS, "gymnasium/bin/python")
if not os.path.exists(PYTHON):
    skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
if os.environ.get("HD_CONFORMANCE") != "1":  # both sides step envs by the same Python
    os.execve(PYTHON, [PYTHON, os.path.abspath(__file__)],
              dict(os.environ, HD_CONFORMANCE="1", SDL_VIDEODRIVER="dummy", PYGAME_HIDE_SUPPORT_PROMPT="1"))
warnings.simplefilter("ignore")

import ale_py  # noqa: E402
import gymnasium  # noqa: E402
import minigrid  # noqa: E402,F401
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402
from plugin import Group, open_plugin  # noqa: E402

gymnasium.register_envs(ale_py)
STEPS = 2000
LIMIT = 500  # of an episode, where the env has none
FAMILIES = {"classic_control", "toy_text", "box2d", "mujoco", "phys2d", "tabular"}
GAMES = ("Pong Breakout Seaquest Qbert SpaceInvaders BeamRider Enduro MsPacman Asteroids Freeway Alien Amidar Assault "
         "Boxing Frostbite Gopher Hero Kangaroo Krull Riverraid").split()
WRAPPERS = ["minigrid.wrappers:ImgObsWrapper", "minigrid.wrappers:FlatObsWrapper"]

# -- What the same env is without the plug-in ------------------------------------------------------------


def show(space, obs):
    """An observation as docs/howto/gymnasium.md has it."""
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and 1 < len(space.shape) <= 4:
        colours_last = len(space.shape) == 3 and space.shape[2] in (1, 3, 4) and space.shape[0] > 4
        return np.ascontiguousarray(obs.transpose(2, 0, 1) if colours_last else obs)
    return np.asarray(spaces.flatten(space, obs), np.float64).astype(np.float32)


def take(space, numbers):
    """Takes the numbers of an action from the front of a list."""
    if isinstance(space, spaces.Dict):
        return {name: take(part, numbers) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(take(part, numbers) for part in space.spaces)
    n = space.low.size if isinstance(space, spaces.Box) else 1 if isinstance(space, spaces.Discrete) else int(np.prod(space.shape))
    taken = np.array([numbers.pop(0) for _ in range(n)]).reshape(space.shape)
    if isinstance(space, spaces.Box):
        return np.clip(taken.astype(np.float32), space.low, space.high).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return int(taken) + int(space.start)
    return (taken + getattr(space, "start", 0)).astype(space.dtype)


class One:
    """An env of Gymnasium."""

    def __init__(self, env):
        self.env, self.space, self.actions = env, env.observation_space, env.action_space

    def reset(self, seed):
        return [show(self.space, self.env.reset(seed=seed)[0])]

    def step(self, rows):
        obs, reward, terminated, truncated, _ = self.env.step(take(self.actions, list(rows[0])))
        return [show(self.space, obs)], [reward], bool(terminated or truncated), [truncated and not terminated]


class Parallel:
    """An env of PettingZoo, whose agents keep their places when they die."""

    def __init__(self, env):
        self.env, self.names = env, env.possible_agents
        self.space, self.actions = env.observation_space(self.names[0]), env.action_space(self.names[0])

    def show(self, obs, living):
        zero = show(self.space, np.zeros(self.space.shape, self.space.dtype))
        return [show(self.space, obs[name]) if name in living else zero for name in self.names]

    def reset(self, seed):
        self.steps = 0
        return self.show(self.env.reset(seed=seed)[0], self.env.agents)

    def step(self, rows):
        acting = list(self.env.agents)
        obs, rewards, terminated, truncated, _ = self.env.step(
            {name: take(self.actions, list(row)) for name, row in zip(self.names, rows) if name in acting})
        self.steps += 1
        living = [name for name in self.env.agents if not terminated[name] and not truncated[name]]
        over = not living or self.steps == LIMIT
        return (self.show(obs, acting if over else living),
                [rewards[name] if name in acting else 0 for name in self.names], over,
                [over and name in acting and not terminated[name] and (truncated[name] or self.steps == LIMIT)
                 for name in self.names])


# -- The comparison --------------------------------------------------------------------------------------


def draw(rng, actions, rows):
    """Actions, also such as lie outside their bounds."""
    if actions.kind != 2:
        return np.array([[rng.integers(actions.n[i]) for i in range(actions.dims)] for _ in range(rows)], np.int32)
    low, high = np.array(actions.low[:actions.dims]), np.array(actions.high[:actions.dims])
    low, high = np.where(np.isfinite(low), low, -3), np.where(np.isfinite(high), high, 3)
    return rng.uniform(low - (high - low) / 4, high + (high - low) / 4, (rows, actions.dims)).astype(np.float32)


def same(name, step, what, found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted).astype(np.asarray(found).dtype)
    check(found.shape == wanted.shape and found.tobytes() == wanted.tobytes(),
          f"{name}: step {step}: {what} {found.reshape(-1)[:8]}, but without the bridge {wanted.reshape(-1)[:8]}")


class Raised(Exception):
    """Both sides raise."""


def do(name, step, with_bridge, alone):
    """What the env alone returns. Where it raises, the bridge has to say so."""
    try:
        result = alone()
    except Exception as error:
        try:
            with_bridge()
        except ValueError as told:
            check(type(error).__name__ in str(told), f"{name}: step {step}: {told}, but alone {error!r}")
            raise Raised(f"both sides raise at step {step}: {' '.join(str(error).split())[:80]}") from None
        sys.exit(f"failed: {name}: step {step}: {error!r} is raised without the bridge alone")
    with_bridge()
    return result


def compare(name, group, alone):
    rng, seed, episodes = np.random.default_rng(7), 100, 0
    obs = do(name, 0, lambda: group.reset(seed), lambda: alone.reset(seed))
    same(name, 0, "observations", group.obs, obs)
    for step in range(1, STEPS + 1):
        numbers = draw(rng, group.spec.actions, len(group.obs))
        obs, rewards, over, cut = do(name, step, lambda n=numbers: group.step(n), lambda n=numbers: alone.step(n.tolist()))
        for what, found, wanted in (("observations", group.obs, obs), ("rewards", group.reward, rewards),
                                    ("ends", group.done, [over] * len(obs)), ("cuts", group.truncated, cut)):
            same(name, step, what, found, wanted)
        if over:
            seed, episodes = seed + 1, episodes + 1
            obs = do(name, step, lambda s=seed: group.reset(s), lambda s=seed: alone.reset(s))
            same(name, step, "first observations", group.obs, obs)
    return episodes


def try_env(plugin, name, make, options):
    """"equal", or why the env cannot be made or is refused."""
    try:
        alone = make()
    except Exception as error:  # pylint: disable=broad-except
        return f"cannot be made: {' '.join(str(error).split())[:100]}"
    try:
        group = Group(plugin, name, {"python": PYTHON, **options})
    except ValueError as error:
        return f"refused: {error}"
    try:
        return f"equal in {STEPS} steps, {compare(name, group, alone)} episodes"
    except Raised as raised:
        return str(raised)
    finally:
        group.destroy()
        alone.env.close()


def list_gymnasium():
    for name, spec in gymnasium.registry.items():
        family = str(spec.entry_point).split(".")
        if len(family) > 2 and family[2] in FAMILIES:
            limit = {} if spec.max_episode_steps else {"max_episode_steps": LIMIT}
            yield (name, lambda name=name, limit=limit: One(gymnasium.make(name, disable_env_checker=True, **limit)),
                   {key: str(value) for key, value in limit.items()})


def list_minigrid():
    import importlib
    for name in gymnasium.registry:
        for wrapper in WRAPPERS if name.startswith(("MiniGrid-", "BabyAI-")) else ():
            module, _, kind = wrapper.partition(":")
            wrap = getattr(importlib.import_module(module), kind)
            yield (f"minigrid:{name}", lambda name=name, wrap=wrap: One(wrap(gymnasium.make(name, disable_env_checker=True,
                                                                                           max_episode_steps=LIMIT))),
                   {"wrappers": wrapper, "max_episode_steps": str(LIMIT)})


def list_games():
    for game in GAMES:
        name = f"ale_py:ALE/{game}-v5"
        yield (name, lambda name=name: One(gymnasium.make(name, disable_env_checker=True, max_episode_steps=LIMIT)),
               {"max_episode_steps": str(LIMIT)})


def list_parallel():
    import importlib
    for name in ("butterfly.cooperative_pong_v6", "butterfly.knights_archers_zombies_v11", "butterfly.pistonball_v6",
                 "sisl.multiwalker_v9", "sisl.pursuit_v5", "sisl.waterworld_v4"):
        yield (f"pettingzoo.{name}:parallel_env",
               lambda name=name: Parallel(importlib.import_module(f"pettingzoo.{name}").parallel_env()),
               {"max_episode_steps": str(LIMIT), "black_death": "true"})


def main():
    plugin, outcomes = open_plugin(os.path.join(PLUGINS, "heddle_env_gymnasium.so")), {}
    for listed, of in ((list_gymnasium, 25), (list_minigrid, 50), (list_games, 20), (list_parallel, 6)):
        for name, make, options in take_share(listed(), listed.__name__, of):
            if re.search(os.environ.get("HD_ONLY", ""), name):
                outcomes[name, options.get("wrappers", "")] = outcome = try_env(plugin, name, make, options)
                print(f"{name} {options.get('wrappers', '')}: {outcome}", flush=True)
    refused = try_env(plugin, "minigrid:MiniGrid-Empty-5x5-v0", lambda: One(gymnasium.make("MiniGrid-Empty-5x5-v0")), {})
    for word in ("refused", "mission", *WRAPPERS):
        check(word in refused, f"MiniGrid without a wrapper: {refused}")
    wrong = [name for name, outcome in outcomes.items() if outcome.startswith("refused")]
    check(not wrong, f"refused: {wrong}")
    count = sum(outcome.startswith("equal") for outcome in outcomes.values())
    check(count > 0 or not outcomes, "nothing was compared")
    raised = sum(outcome.startswith("both") for outcome in outcomes.values())
    print(f"ok: {count} of {len(outcomes)} environments are equal, {raised} raise on both sides, "
          f"{len(outcomes) - count - raised} cannot be made here")


main()
