# SPDX-License-Identifier: Apache-2.0
"""Run folders with checkpoints, damaged in every way, with hashes made right again if asked."""

import ctypes
import ctypes.util
import json
import os
import random
import shutil
import signal
import subprocess
import time

import runner

XXHASH = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def hash_of(data):
    return f"{XXHASH.XXH3_64bits(data, len(data)):016x}"


def state(run):
    return os.path.join(run, "ckpt/state")


def iterations(run):
    """The iterations that have a checkpoint, ascending."""
    return sorted(int(name[10:]) for name in os.listdir(state(run))
                  if name.startswith("iteration_") and name[10:].isdigit())


def make_run(path, config, keys, ranks=1, checkpoints=2):
    """Trains until there are so many checkpoints, and stops it."""
    head = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
    often = dict(keys, runtime__checkpoint_interval_s=0.05, max_train_iter=10**9)
    command = [*head, config, "--dir", path, "--quiet", *runner.sets(**often)]
    process = subprocess.Popen([runner.RUNNER, *command], env=runner.environment(), stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None and (
            not os.path.isdir(state(path)) or len(iterations(path)) < checkpoints):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    runner.check(process.returncode == 75, f"{process.returncode} {said}")
    runner.check(len(iterations(path)) >= checkpoints, said)


class Manifest:
    """The manifest of a checkpoint; `write` makes all hashes right."""

    def __init__(self, run, iteration):
        self.run, self.folder = run, os.path.join(state(run), f"iteration_{iteration}")
        self.path = os.path.join(self.folder, "manifest.json")
        with open(self.path, encoding="utf-8") as file:
            self.json = json.load(file)

    def files(self):
        """(kind, name, path) of all files."""
        return [(kind, name, os.path.join(folder, name))
                for kind, folder in (("files", self.folder), ("journal_files", os.path.join(state(self.run), "journal")))
                for name in sorted(self.json[kind])]

    def write(self):
        for kind, name, path in self.files():
            with open(path, "rb") as file:
                data = file.read()
            self.json[kind][name] = {"bytes": len(data), "hash": hash_of(data)}
        bare = {key: value for key, value in self.json.items() if key != "hash"}
        text = json.dumps(bare, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        self.json["hash"] = hash_of(text.encode())
        replace(self.path, json.dumps(self.json, sort_keys=True, ensure_ascii=False).encode())


def replace(path, data):
    """Writes a new file, since the old one is shared with the run that was copied."""
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)


def copy(run, to):
    """A copy of a run that shares its files until they are replaced. Logs are continued in place."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(run, to, symlinks=True, copy_function=os.link)
    for folder, _, names in os.walk(os.path.join(to, "log")):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                data = file.read()
            replace(path, data)


INTEGERS = (-1, 1, 255, 2**31 - 1, -2**31, 2**31, 2**32, 2**33, 2**53, 2**62, 2**63 - 1, -2**63)


def mutate(data, draw):
    """Other bytes: flipped bits, numbers at their limits, cut, longer, or a stretch in another place."""
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        if not data:
            return bytes(draw.randbytes(8))
        at, how = draw.randrange(len(data)), draw.randrange(8)
        if draw.random() < 0.5:
            at = min(at, draw.randrange(256))  # where counts and indices are
        if how < 2:
            data[at] ^= 1 << draw.randrange(8)
        elif how < 5:
            width = draw.choice((4, 8))
            at -= at % width
            number = draw.choice(INTEGERS) & (1 << 8 * width) - 1
            data[at:at + width] = number.to_bytes(width, "little")[:max(0, len(data) - at)]
        elif how == 5:
            data[at:at + 8] = draw.choice((b"\0\0\xc0\x7f" * 2, b"\0\0\x80\x7f" * 2, b"\xff" * 8))[:len(data) - at]
        elif how == 6:
            length = min(len(data), draw.choice((8, 64, 4096)))
            start = draw.randrange(len(data) - length + 1)
            data[at:at + length] = data[start:start + length][:len(data) - at]
        else:
            data = data[:at] if draw.random() < 0.7 else data + draw.randbytes(16)
    return bytes(data)


def mutate_json(value, draw):
    """The value with one of its leaves changed."""
    leaves = []

    def visit(node):
        for key in (node if isinstance(node, dict) else range(len(node))):
            if isinstance(node[key], (dict, list)):
                visit(node[key])
            leaves.append((node, key))

    visit(value)
    if not leaves:
        return
    node, key = draw.choice(leaves)
    node[key] = draw.choice([*INTEGERS, 0, None, True, "", "../x", "x" * 300, [], {}, 0.5, [1], "7ff8000000000000"])


def resume(run, config, keys, timeout=60, **more):
    """The exit code and stderr of a run that goes on for one iteration and some more."""
    command = ["run", config, "--resume", run, "--quiet", *runner.sets(**dict(keys, **more))]
    try:
        done = subprocess.run([runner.RUNNER, *command], env=runner.environment(), capture_output=True,
                              text=True, errors="replace", timeout=timeout)
        return done.returncode, done.stderr
    except subprocess.TimeoutExpired as late:
        return "timeout", str(late.stderr)


def draws(seed):
    return random.Random(seed)


def damage_rightly(directory, iteration, draw):
    """Changes a value or the metadata of a checkpoint, whose hashes are made right again."""
    manifest = Manifest(directory, iteration)
    if draw.random() < 0.3:
        mutate_json(manifest.json["metadata"], draw)
    else:
        _, _, path = draw.choice(manifest.files())
        with open(path, "rb") as file:
            data = file.read()
        replace(path, mutate(data, draw))
    manifest.write()
