# SPDX-License-Identifier: Apache-2.0
"""Heddle's environments as those of gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import RenderCollection

from . import _library as lib
from ._group import RENDER_FPS, Group, Settings, draw_seeds
from ._window import Window
from .policy import Policy

SEEDS = 1 << 64


def _check_render_mode(mode: str | None, modes: list[str]) -> None:
    if mode is not None and mode not in modes:
        raise lib.InputError(f"expected a render mode of {modes}, found {mode!r}")


def _check_seed(seed: int) -> int:
    if not 0 <= seed < SEEDS:
        raise lib.InputError(f"seeds are from 0 to 2**64 - 1, found {seed}")
    return int(seed)


def _check_mask(mask: Any, envs: int) -> np.ndarray:
    mask = np.ascontiguousarray(mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"expected a reset_mask of {envs} bools, found {mask.dtype}")
    if mask.shape != (envs,) or not mask.any():
        raise lib.InputError(f"expected a reset_mask of {envs} bools, some of them true, found {mask}")
    return mask


def _take(obs: Any, env: int) -> Any:
    """The observation of one environment."""
    return {name: part[env] for name, part in obs.items()} if isinstance(obs, dict) else obs[env]


class _Member(gymnasium.Env):
    """One environment of a vector, for its methods `call`, `get_attr` and `set_attr`."""

    def __init__(self, vector: VectorEnv, index: int) -> None:
        self._vector, self._index = vector, index
        self.metadata = {name: value for name, value in vector.metadata.items() if name != "autoreset_mode"}
        self.spec, self.render_mode = vector.spec, vector.render_mode
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space

        self.take_seed()

    def take_seed(self) -> None:
        self._np_random, self._np_random_seed = seeding.np_random(int(self._vector._group.seeds[self._index]))

    def reset(self, **_: Any) -> Any:
        raise lib.Error("environments of a vector are reset by the vector, with the option reset_mask")

    def step(self, action: Any) -> Any:
        raise lib.Error("environments of a vector are stepped by the vector, all of them together")

    def render(self) -> np.ndarray | None:
        return None if self.render_mode is None else self._vector._group.render(self._index)


class VectorEnv(gymnasium.vector.VectorEnv):
    """Environments that step side by side, in C.

    source: the environment's type ("cartpole", "pixel_pong", ...), or a Policy, for those of its run file.
    env_id, options: as `env.env_id` and `env.options` of a run file.
    frame_stack: the number of frames of an observation, oldest first.
    training: as in training; for Atari rewards are clipped then, and episodes end with a life.
    allow_plugins: a type that is not built in is a plug-in, whose code is loaded: heddle_env_<type>.so in the folders of
        $HEDDLE_PLUGINS, or a path.
    render_mode: "rgb_array" or None.
    autoreset_mode: how episodes follow one another, an AutoresetMode of gymnasium or its value.
    max_episode_steps: after which episodes are truncated; environments have limits of their own besides.

    NEXT_STEP: the step after the last one of an episode ignores its action and shows the first observation of the next
    episode, with the reward 0. SAME_STEP: the last step of an episode shows the first observation of the next one, and
    its own in the infos, as "final_obs". DISABLED: what has ended has to be reset, by the option "reset_mask" of `reset`,
    which all modes take.

    Environment i starts from seed[i], or from seed + i, as in a run, and its later episodes from seeds that follow from
    that one. Rewards are float32. Copies and pickles go on with the same bits."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": RENDER_FPS,
                                "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, source: str | Policy, num_envs: int = 1, *, env_id: str | None = None,
                 options: Mapping[str, object] | None = None, frame_stack: int = 1, training: bool = False,
                 allow_plugins: bool = False, render_mode: str | None = None,
                 autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
                 max_episode_steps: int | None = None) -> None:
        _check_render_mode(render_mode, self.metadata["render_modes"])
        self._mode = AutoresetMode(autoreset_mode)
        self._group = Group(Settings(source, num_envs, env_id, options, frame_stack, training, allow_plugins,
                                     max_episode_steps))
        self._ended = np.zeros(num_envs, np.bool_)  # of AutoresetMode.DISABLED
        self._members: list[_Member] = []
        self.metadata = {**self.metadata, "render_fps": self._group.render_fps, "autoreset_mode": self._mode}
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = self._group.observation_space
        self.single_action_space = self._group.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def envs(self) -> list[_Member]:
        """What `call`, `get_attr` and `set_attr` ask."""
        if not self._members:
            self._members = [_Member(self, i) for i in range(self.num_envs)]
        return self._members

    call, get_attr, set_attr = SyncVectorEnv.call, SyncVectorEnv.get_attr, SyncVectorEnv.set_attr

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each environment."""
        return tuple(self._group.seeds.tolist())

    np_random = SyncVectorEnv.np_random  # type: ignore[assignment]

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
            mask = _check_mask(mask, self.num_envs)
        obs = self._group.reset(self._read_seeds(seed), mask)
        self._ended = np.zeros(self.num_envs, np.bool_) if mask is None else self._ended & ~mask
        if seed is not None:
            for member in self._members:
                member.take_seed()
        return obs, {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._mode is AutoresetMode.NEXT_STEP:
            return (*self._group.step(actions), {})
        if self._ended.any():
            raise lib.Error(f"the environments {np.flatnonzero(self._ended).tolist()} have ended: reset them by "
                            'reset(options={"reset_mask": terminated | truncated})')
        obs, reward, terminated, truncated = self._group.step(actions)
        infos: dict[str, Any] = {}
        ended = terminated | truncated
        if self._mode is AutoresetMode.DISABLED:
            self._ended = ended
        elif ended.any():
            for i in np.flatnonzero(ended):
                infos = self._add_info(infos, {"final_obs": _take(obs, i), "final_info": {}}, i)
            obs = self._group.reset(None, ended)
        return obs, reward, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return None
        return tuple(self._group.render(i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        if hasattr(self, "_group"):  # else it could not be made
            self._group.destroy()


class Env(gymnasium.Env):
    """One environment in C. The arguments are those of VectorEnv; an episode that has ended needs `reset`. Copies and
    pickles go on with the same bits.

    render_mode: "rgb_array"; "human", a window, for which the package pygame is needed; or None."""

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": RENDER_FPS}

    def __init__(self, source: str | Policy, *, env_id: str | None = None, options: Mapping[str, object] | None = None,
                 frame_stack: int = 1, training: bool = False, allow_plugins: bool = False,
                 render_mode: str | None = None) -> None:
        _check_render_mode(render_mode, self.metadata["render_modes"])
        self._group = Group(Settings(source, 1, env_id, options, frame_stack, training, allow_plugins))
        self.metadata = {**self.metadata, "render_fps": self._group.render_fps}
        self.render_mode = render_mode
        self.observation_space = self._group.observation_space
        self.action_space = self._group.action_space
        self._playing = False
        self._window = Window(self._group.render_fps) if render_mode == "human" else None

    def _show(self) -> None:
        if self._window is not None:
            self._window.show(self._group.render(0))

    def reset(self, *, seed: int | None = None,
              options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is None and not self._group.seeded and self._np_random is None:
            seed = int(self._group.seeds[0])  # so that np_random_seed tells from where the first episode starts
        if seed is not None:
            seed = _check_seed(seed)
        super().reset(seed=seed)
        obs = self._group.reset(None if seed is None else [seed])
        self._playing = True
        self._show()
        return _take(obs, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise lib.Error("the episode has ended, or none has begun: call reset")
        obs, reward, terminated, truncated = self._group.step(np.asarray(action)[np.newaxis])
        self._playing = not (terminated[0] or truncated[0])
        self._show()
        return _take(obs, 0), float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        if self.render_mode == "rgb_array":
            return self._group.render(0)
        self._show()
        return None

    def close(self) -> None:
        self._group.destroy()
        if self._window is not None:
            self._window.close()


def make_env(source: str | Policy, *, render_mode: str | None = None, **options: Any) -> gymnasium.Env:
    """An Env, or, for the render mode "rgb_array_list", one in gymnasium's RenderCollection, as gymnasium.make has it."""
    if render_mode == "rgb_array_list":
        return RenderCollection(Env(source, render_mode="rgb_array", **options))
    return Env(source, render_mode=render_mode, **options)
