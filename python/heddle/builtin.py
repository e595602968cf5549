# SPDX-License-Identifier: Apache-2.0
"""The built-in environments: the names that gymnasium knows them by, and the arguments of Env."""

from __future__ import annotations

from typing import Any

BUILTIN: dict[str, dict[str, Any]] = {
    "Acrobot": {"source": "acrobot"},
    "CartPole": {"source": "cartpole"},
    "MountainCar": {"source": "mountain_car"},
    "MountainCarContinuous": {"source": "mountain_car_continuous"},
    "Pendulum": {"source": "pendulum"},
    "PixelPong": {"source": "pixel_pong", "frame_stack": 4},
}
