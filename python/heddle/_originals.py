# SPDX-License-Identifier: Apache-2.0
"""What Gymnasium states of the environments after which the built-in ones are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class Original:
    """max_episode_steps: after which the environment truncates an episode by itself, as Gymnasium's TimeLimit does.
    low, high: bounds of the numbers of a frame; none for pictures, and without `low` they are symmetric."""

    max_episode_steps: int
    render_fps: int
    reward_threshold: float | None = None
    high: tuple[float, ...] = ()
    low: tuple[float, ...] = ()

    def make_box(self, shape: tuple[int, ...], frames: int) -> gymnasium.Space:
        """The space of observations of `frames` frames. CartPole without velocities shows every other number."""
        from gymnasium import spaces

        step = len(self.high) * frames // math.prod(shape)
        high = np.array(self.high[::step], np.float32)
        low = np.array(self.low[::step], np.float32) if self.low else -high
        return spaces.Box(np.resize(low, shape), np.resize(high, shape), dtype=np.float32)


_TURN = 2 * math.pi
ORIGINALS = {
    "acrobot": Original(500, 15, -100.0, (1, 1, 1, 1, 2 * _TURN, 4.5 * _TURN)),
    "cartpole": Original(200, 50, 195.0, (2 * 2.4, math.inf, 2 * 12 * _TURN / 360, math.inf)),
    "mountain_car": Original(200, 30, -110.0, (0.6, 0.07), (-1.2, -0.07)),
    "mountain_car_continuous": Original(999, 30, 90.0, (0.6, 0.07), (-1.2, -0.07)),
    "pendulum": Original(200, 30, None, (1, 1, 8)),
    "pixel_pong": Original(10000, 30),
}
