# SPDX-License-Identifier: Apache-2.0
"""The memory that a worker of the Gymnasium bridge shares with the plug-in: the structures of
kernels/envs/gymnasium/shared.h, and the words of kernels/envs/env.h."""

import ctypes

F32, U8 = range(2)
DISCRETE, MULTI_DISCRETE, BOX = range(3)
CLOSE, RESET, STEP, REPLAY, SAVE, LOAD, RENDER = range(7)
UNKNOWN, ANNOUNCED, STARTED = range(3)
DIMS, ACTION_DIMS, TEXT, CODE = 4, 64, 464, 64


class Description(ctypes.Structure):
    _fields_ = [("element", ctypes.c_int64), ("dims", ctypes.c_int64), ("shape", ctypes.c_int64 * DIMS),
                ("kind", ctypes.c_int64), ("action_dims", ctypes.c_int64), ("n", ctypes.c_int64 * ACTION_DIMS),
                ("low", ctypes.c_float * ACTION_DIMS), ("high", ctypes.c_float * ACTION_DIMS),
                ("limit", ctypes.c_int64), ("height", ctypes.c_int64), ("width", ctypes.c_int64),
                ("agents", ctypes.c_int64), ("code", ctypes.c_char * CODE)]


class Header(ctypes.Structure):
    _fields_ = [("description", Description)] + [(name, ctypes.c_int64) for name in (
        "envs", "workers", "controls", "frame_bytes", "pickle_bytes", "calls", "control", "obs", "action", "reward", "done",
        "truncated", "next", "next_seed", "next_obs", "history", "pickle", "picture")]


CALLS_BYTES = 64


class Control(ctypes.Structure):
    _fields_ = [("turn", ctypes.c_uint32), ("command", ctypes.c_int32), ("env", ctypes.c_int64),
                ("seed", ctypes.c_uint64), ("count", ctypes.c_int64), ("failed", ctypes.c_int32),
                ("at", ctypes.c_int32), ("unused", ctypes.c_int64), ("error", ctypes.c_char * TEXT)]
