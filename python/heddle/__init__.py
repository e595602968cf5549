# SPDX-License-Identifier: Apache-2.0
"""Policies that Heddle trained, and its environments in C, on numpy arrays.

    policy = heddle.load("cartpole_dqn_ddp")             # a run directory
    envs = heddle.make_vec("cartpole", num_envs=16)      # a gymnasium.vector.VectorEnv
    observations, _ = envs.reset(seed=0)
    observations, *_ = envs.step(policy.act(observations))

Nothing is trained here; the program `runner` does that. Environments need the package gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._library import Error, InputError, version
from .policy import Actions, Policy, load

if TYPE_CHECKING:
    from .envs import Env, VectorEnv

__all__ = ["Actions", "Env", "Error", "InputError", "Policy", "VectorEnv", "load", "make", "make_vec"]
__version__ = version()

try:
    from . import registration as _registration  # where there is gymnasium, it knows heddle/CartPole-v0 and others
except ImportError:
    pass
else:
    _registration.register()


def make(env_type: str, **options: Any) -> Env:
    """Makes one environment: `heddle.Env(env_type, ...)`."""
    from .envs import Env

    return Env(env_type, **options)


def make_vec(env_type: str, num_envs: int = 1, **options: Any) -> VectorEnv:
    """Makes environments that step side by side: `heddle.VectorEnv(env_type, num_envs, ...)`."""
    from .envs import VectorEnv

    return VectorEnv(env_type, num_envs, **options)


def __getattr__(name: str) -> Any:
    if name in ("Env", "VectorEnv"):  # which need gymnasium
        from . import envs

        return getattr(envs, name)
    raise AttributeError(f"module 'heddle' has no attribute {name!r}")
