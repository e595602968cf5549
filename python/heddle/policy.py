# SPDX-License-Identifier: Apache-2.0
"""Trained policies: from observations to outputs and actions."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._parts import Parts, make_box

if TYPE_CHECKING:
    import gymnasium

    from .envs import VectorEnv


# Of one array, or of the parts by their names.
Observation = Union[npt.ArrayLike, Mapping[str, npt.ArrayLike]]


@dataclass(frozen=True)
class Actions:
    """An action space. `kind` is "discrete" (one choice among n[0]), "multi_discrete" (choice i among n[i]) or "box"
    (real numbers between low and high, which may be infinite)."""

    kind: str
    dims: int
    n: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @classmethod
    def _of(cls, found: lib.ActionsOfC) -> Actions:
        dims = found.dims
        if found.kind == lib.BOX:
            return cls("box", dims, low=tuple(found.low[:dims]), high=tuple(found.high[:dims]))
        return cls("discrete" if found.kind == lib.DISCRETE else "multi_discrete", dims, n=tuple(found.n[:dims]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return () if self.kind == "discrete" else (self.dims,)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32 if self.kind == "box" else np.int64)

    def to_space(self) -> gymnasium.Space:
        """The same as a space of gymnasium."""
        from gymnasium import spaces

        if self.kind == "discrete":
            return spaces.Discrete(self.n[0])
        if self.kind == "multi_discrete":
            return spaces.MultiDiscrete(list(self.n))
        return spaces.Box(np.array(self.low, np.float32), np.array(self.high, np.float32), dtype=np.float32)


class Policy:
    """A trained policy, which `load` makes. It is read-only: threads may share it, and calls release the GIL.

    observation_shape, observation_dtype: of one observation. One of several parts (policy.model.inputs) is a dict of
        arrays, or a row of bytes, which these describe; observation_parts maps the names of the parts to shape and dtype.
    actions: the action space.
    outputs: the number of outputs for an observation.
    state_size: the numbers that a recurrent policy keeps from step to step; 0 for others.
    can_draw: the outputs are of a distribution, from which actions can be drawn.

    A copy is the policy itself. A pickle has the names of its files, from which it is loaded again."""

    def __init__(self, address: int, files: tuple[str, str | None]) -> None:
        self._address, self._files = address, files
        weakref.finalize(self, lib.get_destroyer("policy_destroy"), address)
        spec = lib.describe("policy_describe", address, lib.PolicySpec())
        self.observation_shape: tuple[int, ...] = spec.obs.get_shape()
        self.observation_dtype: np.dtype = spec.obs.get_dtype()
        self._parts = Parts(lib.describe("policy_describe_parts", address, lib.ObsParts()))
        self.observation_parts: dict[str, tuple[tuple[int, ...], np.dtype]] = {
            name: (shape, dtype) for name, (shape, dtype, _) in self._parts.parts.items()}
        self.actions = Actions._of(spec.actions)
        self.outputs: int = spec.outputs
        self.state_size: int = spec.state_size
        self.can_draw: bool = spec.can_draw
        self._action_shape, self._action_dtype = self.actions.shape, self.actions.dtype
        self._act, self._draw, self._forward = (lib.find(f"policy_{name}") for name in ("act", "draw", "forward"))

    def __repr__(self) -> str:
        return (f"Policy(observation_shape={self.observation_shape}, observation_dtype={self.observation_dtype}, "
                f"actions={self.actions})")

    def __reduce__(self) -> Any:
        return load, self._files

    def __copy__(self) -> Policy:
        return self

    def __deepcopy__(self, _: Any) -> Policy:
        return self

    def _take(self, obs: Observation) -> tuple[np.ndarray, tuple[int, ...], int, int]:
        """The observations as the library takes them, the shape of the batch, its rows, and the type of numbers."""
        if isinstance(obs, Mapping) and not self._parts:
            raise TypeError("observations of this policy are one array, found a dict")
        array = self._parts.pack(obs) if isinstance(obs, Mapping) else np.asarray(obs)
        element = lib.F32
        if array.dtype == np.uint8 and self.observation_dtype == np.uint8:
            element = lib.U8
        elif array.dtype != np.float32:
            if self._parts or array.dtype.kind not in ("f" if self.observation_dtype == np.uint8 else "fiu"):
                raise TypeError(f"observations of this policy are {self.observation_dtype}, found {array.dtype}")
            array = array.astype(np.float32)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        shape = array.shape
        batch = shape[: len(shape) - len(self.observation_shape)]
        if shape[len(batch):] != self.observation_shape:
            raise lib.InputError(f"observations of this policy have the shape {self.observation_shape}, alone or with "
                                 f"dimensions of a batch before it; found {shape}")
        return array, batch, math.prod(batch), element

    def _take_state(self, batch: tuple[int, ...], state: npt.ArrayLike | None,
                    episode_start: npt.ArrayLike | None) -> tuple[np.ndarray, np.ndarray, lib.RecurrentState]:
        """A copy of the state, for the library to advance, where episodes begin, and both as the library takes them."""
        shape = (*batch, self.state_size)
        values = np.zeros(shape, np.float32) if state is None else np.array(state, np.float32)
        begins = np.zeros(batch, np.bool_) if episode_start is None else np.array(episode_start, np.bool_)
        if values.shape != shape:
            raise lib.InputError(f"expected a state of the shape {shape}, found {values.shape}")
        if begins.shape != batch:
            raise lib.InputError(f"expected an episode_start of the shape {batch}, found {begins.shape}")
        return values, begins, lib.RecurrentState(lib.address_of(values), lib.address_of(begins))

    def forward(self, obs: Observation) -> npt.NDArray[np.float32]:
        """The net's outputs [..., outputs] for observations [..., *observation_shape], alone or in a batch of any
        dimensions: values or logits of the choices, or means and logarithms of deviations; an actor with a critic
        also yields the observation's value, as the last number. Pictures are uint8, or floats divided by 255; in
        observations of several parts, {name: array}, they are uint8. A
        recurrent policy has `forward_step`."""
        array, batch, rows, element = self._take(obs)
        out = np.empty((*batch, self.outputs), np.float32)
        lib.check(self._forward(self._address, element, lib.address_of(array), rows, None, lib.address_of(out),
                                lib.get_message_address()))
        return out

    def forward_step(self, obs: Observation, state: npt.ArrayLike | None = None,
                     episode_start: npt.ArrayLike | None = None
                     ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The outputs as those of `forward`, and the state after this step; arguments as those of `predict`."""
        array, batch, rows, element = self._take(obs)
        values, _begins, given = self._take_state(batch, state, episode_start)
        out = np.empty((*batch, self.outputs), np.float32)
        lib.check(self._forward(self._address, element, lib.address_of(array), rows, given, lib.address_of(out),
                                lib.get_message_address()))
        return out, values

    def act(self, obs: Observation, *, seed: int | None = None) -> Any:
        """The actions [..., *actions.shape] for observations as in `forward`: the likeliest ones, or those of the
        largest value; with `seed`, drawn from the policy's distribution, as a function of outputs, seed and the
        place in the batch. An action of one observation alone, among choices, is a numpy integer. Real numbers of ppo may
        lie beyond an environment's bounds, as in training; heddle's environments clip them where Gymnasium's do. A
        recurrent policy has `predict`."""
        array, batch, rows, element = self._take(obs)
        return self._choose(array, batch, rows, element, None, seed)

    def predict(self, obs: Observation, state: npt.ArrayLike | None = None,
                episode_start: npt.ArrayLike | None = None, *, seed: int | None = None
                ) -> tuple[Any, npt.NDArray[np.float32]]:
        """The actions as those of `act`, and the state [..., state_size] after this step, for the next one. `state` is
        that of the step before; None, as before the first, is zeros. Where `episode_start` [...] is true, the state
        counts as zeros. Policies that are not recurrent take the same calls, with states of no numbers."""
        array, batch, rows, element = self._take(obs)
        values, _begins, given = self._take_state(batch, state, episode_start)
        return self._choose(array, batch, rows, element, given, seed), values

    def _choose(self, array: np.ndarray, batch: tuple[int, ...], rows: int, element: int,
                state: lib.RecurrentState | None, seed: int | None) -> Any:
        actions = np.empty((*batch, *self._action_shape), self._action_dtype)
        if seed is None:
            lib.check(self._act(self._address, element, lib.address_of(array), rows, state, lib.address_of(actions),
                                lib.get_message_address()))
        else:
            if not 0 <= seed < 1 << 64:
                raise lib.InputError(f"seeds are from 0 to 2**64 - 1, found {seed}")
            lib.check(self._draw(self._address, element, lib.address_of(array), rows, state, seed,
                                 lib.address_of(actions), lib.get_message_address()))
        return actions if actions.shape else actions[()]

    @property
    def observation_space(self) -> gymnasium.Space:
        """Of one observation. Needs gymnasium."""
        return self._parts.to_space() if self._parts else make_box(self.observation_shape, self.observation_dtype)

    @property
    def action_space(self) -> gymnasium.Space:
        """Needs gymnasium. Real numbers of ppo have no bounds here; those of the environment are in its space."""
        return self.actions.to_space()

    def make(self, **options: Any) -> gymnasium.Env:
        """Makes one environment as the run file describes it (see heddle.make and Env for options)."""
        from .envs import make_env

        return make_env(self, **options)

    def make_vec(self, num_envs: int = 1, **options: Any) -> VectorEnv:
        """Makes environments as the run file describes them (see VectorEnv for options)."""
        from .envs import VectorEnv

        return VectorEnv(self, num_envs, **options)


def load(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> Policy:
    """Loads a policy from a run directory, from a file of weights (policy.safetensors), which says what its policy is, or
    from a run file (YAML) and a file of weights.

    Without `weights` it has the best ones that the run directory names, else those saved last. Raises
    FileNotFoundError, or InputError for a file that is malformed, damaged, or of another net."""
    for given in (path, weights):
        if given is not None and not os.path.exists(given):
            raise FileNotFoundError(f"there is no {os.fspath(given)}")
    address = lib.create("policy_load", os.fsencode(path), None if weights is None else os.fsencode(weights))
    return Policy(address, (os.path.abspath(path), None if weights is None else os.path.abspath(weights)))
