#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Atari games in the plug-in against DI-engine's wrappers over ale-py and OpenCV: every frame, reward and end of
some games, trained on and evaluated; the resize on random frames."""

import ctypes
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, check, skip  # noqa: E402

try:
    import cv2
    import numpy as np
    from atari_env import Ours, Theirs
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

PLUGINS = os.path.join(os.path.dirname(RUNNER), "plugins")
PLUGIN = os.path.join(PLUGINS, "heddle_env_atari.so")
# With lives and FIRE; without FIRE; without both; in PAL, 250 rows and odd colours.
GAMES = {"Seaquest": "seaquest", "MsPacman": "ms_pacman", "Freeway": "freeway", "AirRaid": "air_raid",
         "SpaceInvaders": "space_invaders"}
STEPS = 500


def same_play(game, rom, evaluator):
    ours = Ours(PLUGIN, f"{game}NoFrameskip-v4", evaluator)
    theirs = Theirs(os.path.join(PLUGINS, "atari_roms", f"{rom}.bin"), evaluator)
    check(ours.actions == theirs.actions, f"{game} has {ours.actions} actions, not {theirs.actions}")
    draws = np.random.default_rng([len(rom), evaluator])
    mode, ends = "evaluated" if evaluator else "trained on", 0
    check((ours.reset(0) == theirs.reset(0)).all(), f"{game} {mode} starts otherwise")
    for t in range(STEPS):
        action = int(draws.integers(ours.actions))
        obs, reward, done = ours.step(action)
        wanted_obs, wanted_reward, wanted_done = theirs.step(action)
        check((obs == wanted_obs).all(), f"{game} {mode}: frame {t} differs")
        check((reward, done) == (wanted_reward, wanted_done), f"{game} {mode}: step {t} gives {reward}, {done}, "
              f"not {wanted_reward}, {wanted_done}")
        if done:
            ends += 1
            check((ours.reset(t) == theirs.reset(t)).all(), f"{game} {mode}: reset after step {t} differs")
    ours.close()
    return ends


def same_resize(library):
    """Frames of noise, of few colours and of repeated rows."""
    draws = np.random.default_rng(1)
    for height, width in ((210, 160), (250, 160), (84, 160), (301, 299)):
        warp = ctypes.create_string_buffer(1 << 16)
        library.hd_warp_init(warp, height, width)
        for colours in (256, 256, 2, 4, 16):
            frame = draws.integers(0, colours, (height, width, 3)) * (255 // (colours - 1))
            frame = frame.astype(np.uint8)
            if colours == 4:
                frame[1::2] = frame[: 2 * (height // 2) : 2]
            found = np.zeros((84, 84), np.uint8)
            library.hd_warp_resize_rgb(warp, frame.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p))
            wanted = cv2.resize(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY), (84, 84), interpolation=cv2.INTER_AREA)
            check((found == wanted).all(), f"{height} x {width}: {(found != wanted).sum()} pixels differ from OpenCV's")


def main():
    with Scratch() as scratch:
        # With and without the instructions of this machine: these are two ways through the code.
        for options in ([], ["-march=native"]):
            path = scratch(f"warp{len(options)}.so")
            subprocess.run(["cc", "-O3", *options, "-ffp-contract=off", "-shared", "-fPIC", f"-I{ROOT}",
                            os.path.join(ROOT, "kernels/envs/atari/warp.c"), "-o", path, "-lm"], check=True)
            same_resize(ctypes.CDLL(path))
    if not os.path.exists(PLUGIN):
        skip(f"no {PLUGIN}; scripts/atari builds the plug-in")
    for game, rom in GAMES.items():
        ends = [same_play(game, rom, evaluator) for evaluator in (False, True)]
        print(f"{game}: {2 * STEPS} steps equal, {ends[0]} + {ends[1]} ends")


main()
