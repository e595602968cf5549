# SPDX-License-Identifier: Apache-2.0
"""Heddle's environments as those of gymnasium."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _library as lib
from ._parts import Parts, make_box
from .policy import Actions, Policy

RENDER_MODES = ["rgb_array"]
SEEDS = 1 << 64


def _encode(value: object) -> bytes:
    return str(value).lower().encode() if isinstance(value, bool) else str(value).encode()


def _create(source: str | Policy, envs: int, env_id: str | None, options: Mapping[str, object] | None,
            frame_stack: int, training: bool, allow_plugins: bool) -> int:
    if isinstance(source, Policy):
        if env_id is not None or options is not None or frame_stack != 1:
            raise lib.InputError("the run file of the policy says which environments these are")
        return lib.create("policy_create_envs", source._address, envs, training, allow_plugins)
    pairs = [lib.Option(name.encode(), _encode(value)) for name, value in (options or {}).items()]
    settings = lib.EnvsSettings(source.encode(), (env_id or "").encode(), (lib.Option * len(pairs))(*pairs), len(pairs),
                                envs, frame_stack, training, allow_plugins)
    return lib.create("envs_create", ctypes.byref(settings))


def draw_seeds(n: int) -> np.ndarray:
    """Seeds from the system's entropy."""
    return np.random.SeedSequence().generate_state(n, np.uint64)


class _Group:
    """Environments of the library."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.destroy = weakref.finalize(self, lib.get_destroyer("envs_destroy"), address)
        self.spec = lib.describe("envs_describe", address, lib.EnvsSpec())
        self.envs: int = self.spec.envs
        self.actions = Actions._of(self.spec.actions)
        self.parts = Parts(lib.describe("envs_describe_parts", address, lib.ObsParts()))
        self.observation_space = (self.parts.to_space() if self.parts
                                  else make_box(self.spec.obs.get_shape(), self.spec.obs.get_dtype()))
        self.action_space = self.actions.to_space()
        self.obs_shape = (self.envs, *self.spec.obs.get_shape())
        self.obs_dtype = self.spec.obs.get_dtype()
        self.action_shape = (self.envs, *self.actions.shape)
        self.seeded = False
        self._step = lib.find("envs_step")

    def _check_open(self) -> None:
        if not self.destroy.alive:
            raise lib.Error("these environments were closed")

    def _show(self, obs: np.ndarray) -> Any:
        return self.parts.unpack(obs) if self.parts else obs

    def reset(self, seeds: Sequence[int] | None, mask: np.ndarray | None = None) -> Any:
        self._check_open()
        given = None if seeds is None else np.array(seeds, np.uint64)
        if given is None and not self.seeded:
            given = draw_seeds(self.envs)
        obs = np.empty(self.obs_shape, self.obs_dtype)
        lib.call("envs_reset", self.address, None if mask is None else lib.address_of(mask),
                 None if given is None else lib.address_of(given), lib.address_of(obs))
        self.seeded = True
        return self._show(obs)

    def step(self, action: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        self._check_open()
        given = np.asarray(action)
        if given.dtype.kind not in ("fiu" if self.actions.kind == "box" else "iu"):
            raise TypeError(f"actions are {self.actions.dtype}, found {given.dtype}")
        array = np.ascontiguousarray(given, self.actions.dtype)
        if given.shape != self.action_shape:
            raise lib.InputError(f"expected actions of the shape {self.action_shape}, found {given.shape}")
        obs = np.empty(self.obs_shape, self.obs_dtype)
        reward = np.empty(self.envs, np.float32)
        terminated, truncated = np.empty(self.envs, np.bool_), np.empty(self.envs, np.bool_)
        lib.check(self._step(self.address, lib.address_of(array), lib.address_of(obs), lib.address_of(reward),
                             lib.address_of(terminated), lib.address_of(truncated), lib.get_message_address()))
        return self._show(obs), reward, terminated, truncated

    def render(self, env: int) -> np.ndarray:
        self._check_open()
        rgb = np.empty((self.spec.render_height, self.spec.render_width, 3), np.uint8)
        lib.call("envs_render", self.address, env, lib.address_of(rgb))
        return rgb


def _check_render_mode(mode: str | None) -> None:
    if mode is not None and mode not in RENDER_MODES:
        raise lib.InputError(f"expected a render mode of {RENDER_MODES}, found {mode!r}")


def _check_seed(seed: int) -> int:
    if not 0 <= seed < SEEDS:
        raise lib.InputError(f"seeds are from 0 to 2**64 - 1, found {seed}")
    return int(seed)


class VectorEnv(gymnasium.vector.VectorEnv):
    """Environments that step side by side, in C.

    source: the environment's type ("cartpole", "pixel_pong", ...), or a Policy, for those of its run file.
    env_id, options: as `env.env_id` and `env.options` of a run file.
    frame_stack: the number of frames of an observation, oldest first.
    training: as in training; for Atari rewards are clipped then, and episodes end with a life.
    allow_plugins: a type that is not built in is a plug-in, whose code is loaded: heddle_env_<type>.so in the folders of
        $HEDDLE_PLUGINS, or a path.
    render_mode: "rgb_array" or None.

    Episodes follow one another by AutoresetMode.NEXT_STEP: the step after the last one of an episode ignores its action
    and shows the first observation of the next episode, with the reward 0. Environment i starts from seed[i], or from
    seed + i, as in a run, and its later episodes from seeds that follow from that one. `reset` takes the option
    "reset_mask". Rewards are float32."""

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": 30,
                                "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, source: str | Policy, num_envs: int = 1, *, env_id: str | None = None,
                 options: Mapping[str, object] | None = None, frame_stack: int = 1, training: bool = False,
                 allow_plugins: bool = False, render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        self._group = _Group(_create(source, num_envs, env_id, options, frame_stack, training, allow_plugins))
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = self._group.observation_space
        self.single_action_space = self._group.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _read_seeds(self, seed: int | Sequence[int | None] | None) -> list[int] | None:
        if seed is None:
            return None
        if isinstance(seed, (int, np.integer)):
            return [_check_seed(int(seed) + i) for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise lib.InputError(f"expected {self.num_envs} seeds, found {len(seed)}")
        drawn = draw_seeds(self.num_envs)
        return [int(drawn[i]) if one is None else _check_seed(one) for i, one in enumerate(seed)]

    def reset(self, *, seed: int | Sequence[int | None] | None = None,
              options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            mask = np.ascontiguousarray(mask)
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
                raise lib.InputError(f"expected a reset_mask of {self.num_envs} bools, found {mask.dtype} {mask.shape}")
        return self._group.reset(self._read_seeds(seed), mask), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        return (*self._group.step(actions), {})

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return None
        return tuple(self._group.render(i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        if hasattr(self, "_group"):  # else it could not be made
            self._group.destroy()


def _take_first(obs: Any) -> Any:
    return {name: part[0] for name, part in obs.items()} if isinstance(obs, dict) else obs[0]


class Env(gymnasium.Env):
    """One environment in C. The arguments are those of VectorEnv; an episode that has ended needs `reset`."""

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": 30}

    def __init__(self, source: str | Policy, *, env_id: str | None = None, options: Mapping[str, object] | None = None,
                 frame_stack: int = 1, training: bool = False, allow_plugins: bool = False,
                 render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        self._group = _Group(_create(source, 1, env_id, options, frame_stack, training, allow_plugins))
        self.render_mode = render_mode
        self.observation_space = self._group.observation_space
        self.action_space = self._group.action_space
        self._playing = False

    def reset(self, *, seed: int | None = None,
              options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            _check_seed(seed)
        super().reset(seed=seed)
        obs = self._group.reset(None if seed is None else [seed])
        self._playing = True
        return _take_first(obs), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise lib.Error("the episode has ended, or none has begun: call reset")
        obs, reward, terminated, truncated = self._group.step(np.asarray(action)[np.newaxis])
        self._playing = not (terminated[0] or truncated[0])
        return _take_first(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> np.ndarray | None:
        return None if self.render_mode is None else self._group.render(0)

    def close(self) -> None:
        self._group.destroy()
