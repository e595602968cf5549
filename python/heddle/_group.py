# SPDX-License-Identifier: Apache-2.0
"""Environments of the library, side by side."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from . import _library as lib
from ._originals import ORIGINALS
from ._parts import Parts, make_box
from .policy import Actions, Policy

RENDER_FPS = 30


@dataclass(frozen=True)
class Settings:
    """What environments are made of: the arguments of heddle.VectorEnv."""

    source: str | Policy
    envs: int = 1
    env_id: str | None = None
    options: Mapping[str, object] | None = None
    frame_stack: int = 1
    training: bool = False
    allow_plugins: bool = False
    max_episode_steps: int | None = None


def _encode(value: object) -> bytes:
    return str(value).lower().encode() if isinstance(value, bool) else str(value).encode()


def _create(of: Settings) -> int:
    if isinstance(of.source, Policy):
        if of.env_id is not None or of.options is not None or of.frame_stack != 1:
            raise lib.InputError("the run file of the policy says which environments these are")
        return lib.create("policy_create_envs", of.source._address, of.envs, of.training, of.allow_plugins)
    pairs = [lib.Option(name.encode(), _encode(value)) for name, value in (of.options or {}).items()]
    settings = lib.EnvsSettings(of.source.encode(), (of.env_id or "").encode(), (lib.Option * len(pairs))(*pairs),
                                len(pairs), of.envs, of.frame_stack, of.training, of.allow_plugins)
    return lib.create("envs_create", ctypes.byref(settings))


def draw_seeds(n: int) -> np.ndarray:
    """Seeds from the system's entropy."""
    return np.random.SeedSequence().generate_state(n, np.uint64)


class Group:
    """The environments of one object of the library. A copy, and what a pickle gives, go on with the same bits.

    seeds: from which they were reset; before the first reset, those from which they will be if none are given."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address = _create(settings)
        self.destroy = weakref.finalize(self, lib.get_destroyer("envs_destroy"), self.address)
        if settings.max_episode_steps is not None:
            if settings.max_episode_steps < 1:
                raise lib.InputError(f"expected max_episode_steps of 1 or more, found {settings.max_episode_steps}")
            lib.call("envs_limit_steps", self.address, settings.max_episode_steps)
        self.spec = lib.describe("envs_describe", self.address, lib.EnvsSpec())
        self.envs: int = self.spec.envs
        self.actions = Actions._of(self.spec.actions)
        self.parts = Parts(lib.describe("envs_describe_parts", self.address, lib.ObsParts()))
        self.original = ORIGINALS.get(lib.get_builtin_type(self.address) or "")
        self.render_fps = self.original.render_fps if self.original else RENDER_FPS
        self.observation_space = self._make_observation_space()
        self.action_space = self.actions.to_space()
        self.obs_shape = (self.envs, *self.spec.obs.get_shape())
        self.obs_dtype = self.spec.obs.get_dtype()
        self.action_shape = (self.envs, *self.actions.shape)
        self.seeds = draw_seeds(self.envs)
        self.seeded = False
        self._step = lib.find("envs_step")

    def __reduce__(self) -> Any:
        self._check_open()
        return _restore, (self.settings, lib.save_envs(self.address), self.seeds, self.seeded)

    def _make_observation_space(self) -> gymnasium.Space:
        if self.parts:
            return self.parts.to_space()
        shape, dtype = self.spec.obs.get_shape(), self.spec.obs.get_dtype()
        if self.original and self.original.high:
            return self.original.make_box(shape, self.parts.frames)
        return make_box(shape, dtype)

    def _check_open(self) -> None:
        if not self.destroy.alive:
            raise lib.Error("these environments were closed")

    def _show(self, obs: np.ndarray) -> Any:
        return self.parts.unpack(obs) if self.parts else obs

    def reset(self, seeds: Sequence[int] | None, mask: np.ndarray | None = None) -> Any:
        self._check_open()
        if seeds is None and not self.seeded and mask is not None and not mask.all():
            raise lib.InputError("the first reset without seeds is of all environments: it takes no reset_mask")
        if seeds is not None:
            self.seeds = np.where(True if mask is None else mask, np.array(seeds, np.uint64), self.seeds)
        given = None if seeds is None and self.seeded else self.seeds
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


def _restore(settings: Settings, state: bytes, seeds: np.ndarray, seeded: bool) -> Group:
    group = Group(settings)
    lib.load_envs(group.address, state)
    group.seeds, group.seeded = seeds, seeded
    return group
