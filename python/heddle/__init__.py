# SPDX-License-Identifier: Apache-2.0
"""Training with Heddle, the policies that it trained, and its environments in C, on numpy arrays.

    run = heddle.train("ppo", env="CartPole-v1", steps=100_000)
    policy = run.policy                                  # or heddle.load("cartpole_dqn_ddp"), a run directory
    envs = heddle.make_vec("cartpole", num_envs=16)      # a gymnasium.vector.VectorEnv
    observations, _ = envs.reset(seed=0)
    observations, *_ = envs.step(policy.act(observations))

The program `runner` trains. Environments need the package gymnasium, and metrics pandas."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import Error, InputError

if TYPE_CHECKING:
    import gymnasium

    from .envs import Env, VectorEnv
    from .policy import Actions, Policy, load
    from .training import Run, train

__all__ = ["Actions", "Env", "Error", "InputError", "Policy", "Run", "VectorEnv", "load", "make", "make_vec", "train"]

# What is imported when it is first used: policies need the C library, environments gymnasium.
_HOMES = {"Actions": "policy", "Policy": "policy", "load": "policy", "Env": "envs", "VectorEnv": "envs",
          "Run": "training", "train": "training"}

try:
    from . import registration as _registration  # where there is gymnasium, it knows heddle/CartPole-v0 and others
except ImportError:
    pass
else:
    _registration.register()


def make(env_type: str, **options: Any) -> gymnasium.Env:
    """Makes one environment: `heddle.Env(env_type, ...)`, for the render mode "rgb_array_list" in a RenderCollection."""
    from .envs import make_env

    return make_env(env_type, **options)


def make_vec(env_type: str, num_envs: int = 1, **options: Any) -> VectorEnv:
    """Makes environments that step side by side: `heddle.VectorEnv(env_type, num_envs, ...)`."""
    from .envs import VectorEnv

    return VectorEnv(env_type, num_envs, **options)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._library import version

        return version()
    if name in _HOMES:
        return getattr(importlib.import_module("." + _HOMES[name], __name__), name)
    raise AttributeError(f"module 'heddle' has no attribute {name!r}")
