# SPDX-License-Identifier: Apache-2.0
"""Environments that are plug-ins, called by their functions (kernels/envs/env.h)."""

import ctypes

import numpy as np


class Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Settings(ctypes.Structure):
    _fields_ = [("envs", ctypes.c_int64), ("evaluator", ctypes.c_bool), ("env_id", ctypes.c_char_p),
                ("options", ctypes.POINTER(Option)), ("n_options", ctypes.c_int), ("groups", ctypes.c_int64),
                ("parts", ctypes.c_bool)]


class Part(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 64), ("element", ctypes.c_int), ("dims", ctypes.c_int), ("shape", ctypes.c_int64 * 4)]


class ActionSpace(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("dims", ctypes.c_int), ("n", ctypes.c_int64 * 64), ("low", ctypes.c_float * 64),
                ("high", ctypes.c_float * 64)]


class Spec(ctypes.Structure):
    _fields_ = [("element", ctypes.c_int), ("dims", ctypes.c_int), ("shape", ctypes.c_int64 * 4), ("actions", ActionSpace),
                ("render_height", ctypes.c_int64), ("render_width", ctypes.c_int64), ("n_parts", ctypes.c_int),
                ("part", Part * 16), ("agents", ctypes.c_int64)]


class Outcome(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("obs", "reward", "done", "truncated")]


def function(*arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)


class Plugin(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("create", function(ctypes.POINTER(Settings), ctypes.POINTER(Spec), ctypes.POINTER(ctypes.c_void_p),
                                    ctypes.c_char_p)),
                ("destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("reset", function(ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p)),
                ("step", function(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Outcome), ctypes.c_char_p))]


def open_plugin(path):
    library = ctypes.CDLL(path)
    library.hd_env_plugin.restype = ctypes.POINTER(Plugin)
    return library.hd_env_plugin().contents


class Group:
    """A group of envs of the plug-in: one env, or the agents of a parallel one."""

    def __init__(self, plugin, env_id, options, evaluator=False, parts=False):
        self.plugin, self.message, self.group = plugin, ctypes.create_string_buffer(512), ctypes.c_void_p()
        pairs = [Option(name.encode(), value.encode()) for name, value in options.items()]
        self.spec = Spec()
        self.settings = Settings(1, evaluator, env_id.encode(), (Option * len(pairs))(*pairs), len(pairs), 1, parts)
        self.create()
        if self.spec.agents > 1:
            plugin.destroy(self.group)
            self.settings.envs = self.spec.agents
            self.create()
        n, shape = self.settings.envs, list(self.spec.shape[:self.spec.dims])
        self.obs = np.zeros([n, *shape], [np.float32, np.uint8][self.spec.element])
        self.reward, self.done, self.truncated = np.zeros(n, np.float32), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self.outcome = Outcome(*(array.ctypes.data for array in (self.obs, self.reward, self.done, self.truncated)))

    def call(self, status):
        if status != 0:
            raise ValueError(self.message.value.decode(errors="replace"))

    def create(self):
        self.call(self.plugin.create(self.settings, self.spec, self.group, self.message))

    def reset(self, seed):
        for i, row in enumerate(self.obs):
            self.call(self.plugin.reset(self.group, i, seed, row.ctypes.data, self.message))

    def step(self, numbers):
        self.call(self.plugin.step(self.group, numbers.ctypes.data, self.outcome, self.message))

    def destroy(self):
        self.plugin.destroy(self.group)
