# SPDX-License-Identifier: Apache-2.0
"""A window for the render mode "human"."""

from __future__ import annotations

from typing import Any

import numpy as np


class Window:
    """Shows pictures [height, width, 3] at `fps` per second. It opens with the first one. A copy is another window."""

    def __init__(self, fps: int) -> None:
        try:
            import pygame
        except ImportError as error:
            from gymnasium.error import DependencyNotInstalled

            raise DependencyNotInstalled('the render mode "human" needs the package pygame: `pip install pygame`') from error
        self._fps, self._pygame = fps, pygame
        self._screen: Any = None
        self._clock: Any = None

    def __reduce__(self) -> Any:
        return Window, (self._fps,)

    def show(self, rgb: np.ndarray) -> None:
        pygame = self._pygame
        if self._screen is None:
            pygame.display.init()
            self._screen = pygame.display.set_mode(rgb.shape[1::-1])
            self._clock = pygame.time.Clock()
        self._screen.blit(pygame.surfarray.make_surface(rgb.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()
        self._clock.tick(self._fps)
        pygame.display.flip()

    def close(self) -> None:
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None
