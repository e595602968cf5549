# SPDX-License-Identifier: Apache-2.0
"""Heddle's built-in environments among those of gymnasium: gymnasium.make("heddle/CartPole-v0")."""

from __future__ import annotations

import gymnasium

from .builtin import BUILTIN

def register() -> None:
    """Registers them, as the import of heddle does."""
    for name, arguments in BUILTIN.items():
        gymnasium.register(id=f"heddle/{name}-v0", entry_point="heddle.envs:Env",
                           vector_entry_point="heddle.envs:VectorEnv", kwargs=arguments)
