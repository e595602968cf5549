# SPDX-License-Identifier: Apache-2.0
"""The C library libheddle-infer through ctypes: what <heddle/infer.h> declares."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_bool, c_char_p, c_float, c_int, c_int64, c_uint64, c_void_p
from typing import Any

import numpy as np

from ._isa import find_variant
from .errors import Error, InputError

MESSAGE = 4096
OBS_DIMS, ACTION_DIMS, OBS_PARTS, PART_NAME = 4, 64, 16, 64
INPUT, NOMEM, FORMAT = -1, -2, -4
F32, U8 = 0, 1
DISCRETE, MULTI_DISCRETE, BOX = 0, 1, 2


class _Array(ctypes.Structure):
    def get_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[: self.dims])

    def get_dtype(self) -> np.dtype:
        return np.dtype(np.uint8 if self.element == U8 else np.float32)


class Obs(_Array):
    _fields_ = [("element", c_int), ("dims", c_int), ("shape", c_int64 * OBS_DIMS)]


class ObsPart(_Array):
    _fields_ = [("name", ctypes.c_char * PART_NAME), ("element", c_int), ("dims", c_int), ("shape", c_int64 * OBS_DIMS),
                ("offset", c_int64)]


class ObsParts(ctypes.Structure):
    _fields_ = [("n", c_int), ("frames", c_int64), ("frame_bytes", c_int64), ("part", ObsPart * OBS_PARTS)]


class ActionsOfC(ctypes.Structure):
    _fields_ = [("kind", c_int), ("dims", c_int), ("n", c_int64 * ACTION_DIMS), ("low", c_float * ACTION_DIMS),
                ("high", c_float * ACTION_DIMS)]


class PolicySpec(ctypes.Structure):
    _fields_ = [("obs", Obs), ("actions", ActionsOfC), ("outputs", c_int64), ("state_size", c_int64),
                ("can_draw", c_bool)]


class RecurrentState(ctypes.Structure):
    _fields_ = [("values", c_void_p), ("begins", c_void_p)]


class Option(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class EnvsSettings(ctypes.Structure):
    _fields_ = [("type", c_char_p), ("env_id", c_char_p), ("options", POINTER(Option)), ("n_options", c_int),
                ("envs", c_int64), ("frame_stack", c_int64), ("training", c_bool), ("allow_plugins", c_bool)]


class EnvsSpec(ctypes.Structure):
    _fields_ = [("envs", c_int64), ("obs", Obs), ("actions", ActionsOfC), ("render_height", c_int64),
                ("render_width", c_int64)]


def _open() -> ctypes.CDLL:
    """The library of $HEDDLE_INFER_LIBRARY, else that of this package, of several the one for this processor, else an
    installed one."""
    folder, name = os.path.dirname(os.path.abspath(__file__)), "libheddle-infer.so"
    beside = os.path.join(folder, name)
    named = os.environ.get("HEDDLE_INFER_LIBRARY")
    path = named or find_variant(folder, name) or (beside if os.path.exists(beside) else "libheddle-infer.so.0")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"heddle needs its C library, but {path} cannot be loaded: {error} ('pip install ./python' "
                          "builds it into the package; HEDDLE_INFER_LIBRARY names another)") from None


_lib = _open()
_message = c_void_p  # char message[MESSAGE]
_state = POINTER(RecurrentState)
for _name, _arguments in {
    "policy_load": [c_char_p, c_char_p, POINTER(c_void_p), _message],
    "policy_forward": [c_void_p, c_int, c_void_p, c_int64, _state, c_void_p, _message],
    "policy_act": [c_void_p, c_int, c_void_p, c_int64, _state, c_void_p, _message],
    "policy_draw": [c_void_p, c_int, c_void_p, c_int64, _state, c_uint64, c_void_p, _message],
    "policy_describe_net": [c_void_p, c_void_p, c_int64, POINTER(c_int64), _message],
    "policy_copy_tensor": [c_void_p, c_char_p, c_int64, c_void_p, _message],
    "policy_create_envs": [c_void_p, c_int64, c_bool, c_bool, POINTER(c_void_p), _message],
    "envs_create": [POINTER(EnvsSettings), POINTER(c_void_p), _message],
    "envs_reset": [c_void_p, c_void_p, c_void_p, c_void_p, _message],
    "envs_step": [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, _message],
    "envs_render": [c_void_p, c_int64, c_void_p, _message],
    "envs_limit_steps": [c_void_p, c_int64, _message],
    "envs_save": [c_void_p, c_void_p, _message],
    "envs_load": [c_void_p, c_void_p, c_int64, _message],
}.items():
    getattr(_lib, "heddle_" + _name).argtypes = _arguments
for _name, _arguments in {
    "policy_describe": [c_void_p, POINTER(PolicySpec)],
    "policy_describe_parts": [c_void_p, POINTER(ObsParts)],
    "policy_destroy": [c_void_p],
    "envs_describe": [c_void_p, POINTER(EnvsSpec)],
    "envs_describe_parts": [c_void_p, POINTER(ObsParts)],
    "envs_destroy": [c_void_p],
}.items():
    getattr(_lib, "heddle_" + _name).argtypes = _arguments
    getattr(_lib, "heddle_" + _name).restype = None
_lib.heddle_get_version.restype = c_char_p
_lib.heddle_envs_get_builtin_type.argtypes, _lib.heddle_envs_get_builtin_type.restype = [c_void_p], c_char_p
_lib.heddle_envs_get_state_bytes.argtypes, _lib.heddle_envs_get_state_bytes.restype = [c_void_p], c_int64


def version() -> str:
    return _lib.heddle_get_version().decode()


class _Messages(threading.local):
    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(MESSAGE)
        self.address = ctypes.addressof(self.buffer)


_messages = _Messages()


def find(name: str) -> Any:
    """A function that returns a status. Call it by `call`, or, where microseconds count, with
    `get_message_address()` last and its status given to `check`."""
    return getattr(_lib, "heddle_" + name)


def get_message_address() -> int:
    return _messages.address


def check(status: int) -> None:
    if status == 0:
        return
    text = _messages.buffer.value.decode(errors="replace")
    if status == NOMEM:
        raise MemoryError(text)
    raise (InputError if status in (INPUT, FORMAT) else Error)(text)


def call(name: str, *arguments: Any) -> None:
    check(find(name)(*arguments, _messages.address))


def create(name: str, *arguments: Any) -> int:
    """Calls a function whose last argument receives an object, and returns the object's address."""
    made = c_void_p()
    call(name, *arguments, byref(made))
    return made.value or 0


def describe(name: str, address: int, spec: Any) -> Any:
    getattr(_lib, "heddle_" + name)(address, byref(spec))
    return spec


def get_destroyer(name: str) -> Any:
    return getattr(_lib, "heddle_" + name)


def get_builtin_type(envs: int) -> str | None:
    """The type of environments that are built in."""
    name = _lib.heddle_envs_get_builtin_type(envs)
    return None if name is None else name.decode()


def save_envs(envs: int) -> bytes:
    state = ctypes.create_string_buffer(_lib.heddle_envs_get_state_bytes(envs))
    call("envs_save", envs, state)
    return state.raw


def load_envs(envs: int, state: bytes) -> None:
    call("envs_load", envs, state, len(state))


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
