# SPDX-License-Identifier: Apache-2.0
"""Heddle's built-in environments among those of gymnasium: gymnasium.make("heddle/CartPole-v0")."""

from __future__ import annotations

import gymnasium

from ._originals import ORIGINALS
from .builtin import BUILTIN


def register() -> None:
    """Registers them, as the import of heddle does."""
    for name, arguments in BUILTIN.items():
        original = ORIGINALS[arguments["source"]]
        gymnasium.register(id=f"heddle/{name}-v0", entry_point="heddle.envs:Env",
                           vector_entry_point="heddle.envs:VectorEnv", kwargs=arguments,
                           max_episode_steps=original.max_episode_steps, reward_threshold=original.reward_threshold)
