# SPDX-License-Identifier: Apache-2.0
"""The memory that a worker of the Gymnasium bridge shares with the plug-in: the structures of
kernels/envs/gymnasium/shared.h, and the words of kernels/envs/env.h."""

import ctypes

F32, U8 = range(2)
DISCRETE, MULTI_DISCRETE, BOX = range(3)
CLOSE, RESET, STEP, REPLAY, SAVE, LOAD, RENDER = range(7)
DIMS, ACTION_DIMS, TEXT, CODE = 4, 64, 464, 64
PARTS, PART_NAME = 16, 64


class Part(ctypes.Structure):
    _fields_ = [("element", ctypes.c_int64), ("dims", ctypes.c_int64), ("shape", ctypes.c_int64 * DIMS),
                ("name", ctypes.c_char * PART_NAME)]


class Description(ctypes.Structure):
    _fields_ = [("element", ctypes.c_int64), ("dims", ctypes.c_int64), ("shape", ctypes.c_int64 * DIMS),
                ("kind", ctypes.c_int64), ("action_dims", ctypes.c_int64), ("n", ctypes.c_int64 * ACTION_DIMS),
                ("low", ctypes.c_float * ACTION_DIMS), ("high", ctypes.c_float * ACTION_DIMS),
                ("limit", ctypes.c_int64), ("height", ctypes.c_int64), ("width", ctypes.c_int64),
                ("agents", ctypes.c_int64), ("n_parts", ctypes.c_int64), ("part", Part * PARTS), ("code", ctypes.c_char * CODE)]


class Header(ctypes.Structure):
    _fields_ = [("description", Description)] + [(name, ctypes.c_int64) for name in (
        "first", "envs", "controls", "frame_bytes", "pickle_bytes", "input_bytes", "result_bytes", "body_bytes", "calls",
        "control", "input", "result", "body", "picture")]


class Input(ctypes.Structure):  # the action follows
    _fields_ = [("announced", ctypes.c_int64), ("next_seed", ctypes.c_uint64)]


class Result(ctypes.Structure):  # two frames follow
    _fields_ = [("started", ctypes.c_int64), ("reward", ctypes.c_float), ("done", ctypes.c_bool),
                ("truncated", ctypes.c_bool)]


CALLS_BYTES = 64


class Control(ctypes.Structure):
    _fields_ = [("turn", ctypes.c_uint32), ("command", ctypes.c_int32), ("env", ctypes.c_int64),
                ("seed", ctypes.c_uint64), ("count", ctypes.c_int64), ("failed", ctypes.c_int32),
                ("at", ctypes.c_int32), ("answer", ctypes.c_int64), ("error", ctypes.c_char * TEXT)]
