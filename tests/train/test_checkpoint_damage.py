#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints. A checkpoint that is not what was written is named and the one before is taken, which
shares no file with it. One whose hashes are right, but whose content no run leaves, is refused with a sentence or
trained on; it never crashes the program and never lets it run for ever. HD_DAMAGES sets the rounds of each kind."""

import os
import random
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import checkpoints  # noqa: E402
from runner import ROOT, Scratch, check, result  # noqa: E402

ROUNDS = int(os.environ.get("HD_DAMAGES", "10"))
COMMON = dict(env__stop_value="1e9", world__shards=2, runtime__allow_fingerprint_mismatch="true")
LAGGED = dict(strategy__policy_lag=1, strategy__eval_lag=1, strategy__batch_buffers=2)
PIXELS = dict(strategy__eval_lag=1, policy__other__replay_buffer__replay_buffer_size=2000)
RUNS = {"dqn": ("configs/cartpole_dqn_ddp.yaml", COMMON), "ppo": ("configs/cartpole_ppo_ddp.yaml", {**COMMON, **LAGGED}),
        "priority": ("configs/cartpole_dqn_priority.yaml", COMMON),
        "pixels": ("configs/pixel_pong_dqn_ddp.yaml", {**COMMON, **PIXELS})}


class Run:
    """A stopped run with two checkpoints, and what its continuations end in."""

    def __init__(self, scratch, name):
        self.work, self.path = scratch(name + "_damaged"), scratch(name)
        file, self.keys = RUNS[name]
        self.config = os.path.join(ROOT, file)
        checkpoints.make_run(self.path, self.config, self.keys)
        self.older, self.newer = checkpoints.iterations(self.path)[-2:]
        checkpoints.copy(self.path, self.work)
        self.hashes = [self.resume(expect=0)]  # of the newer one
        checkpoints.copy(self.path, self.work)
        os.unlink(checkpoints.Manifest(self.work, self.newer).path)
        self.hashes.append(self.resume(expect=0))

    def resume(self, expect=None, updates=1):
        code, said = checkpoints.resume(self.work, self.config, self.keys, max_train_iter=updates)
        check(code in ((0, 1, 2) if expect is None else (expect,)), f"{code} {said}")
        check(code == 0 or "error: " in said, said)
        return result(self.work)["param_hash"] if code == 0 else said

    def damage(self, draw):
        """Damages something of the newer checkpoint; returns what."""
        files = checkpoints.Manifest(self.work, self.newer).files()
        _, name, path = draw.choice([*files, ("", "manifest.json", os.path.join(
            checkpoints.state(self.work), f"iteration_{self.newer}/manifest.json"))])
        with open(path, "rb") as file:
            data = file.read()
        how = draw.choice(("flip", "cut", "remove", "swap"))
        if how == "flip":
            at = draw.randrange(len(data))
            checkpoints.replace(path, data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:])
        elif how == "cut":
            checkpoints.replace(path, data[:draw.randrange(len(data))])
        elif how == "remove":
            os.unlink(path)
        else:
            _, other, source = draw.choice(files)
            with open(source, "rb") as file:
                content = file.read()
            how += f" with {other}"
            if content == data:
                return how, name, False
            checkpoints.replace(path, content)
        return how, name, True


def check_named(run, rounds):
    """Without right hashes each damage is seen, and the checkpoint before is good."""
    for seed in range(rounds):
        checkpoints.copy(run.path, run.work)
        how, name, damaged = run.damage(random.Random(seed))
        end = run.resume(expect=0)
        check(end == run.hashes[1 if damaged else 0], f"{how} {name}: {end}, not one of {run.hashes}")
    print(f"{rounds} damages: each named, and gone on from the one before")


def check_refused(run, rounds):
    """With right hashes."""
    ends = {}
    for seed in range(rounds):
        draw = random.Random(seed)
        checkpoints.copy(run.path, run.work)
        checkpoints.damage_rightly(run.work, run.newer, draw)
        end = run.resume(updates=60)
        kind = "trained on" if re.fullmatch("[0-9a-f]{16}", end) else "refused"
        ends[kind] = ends.get(kind, 0) + 1
    print(f"{rounds} damages with right hashes: {ends}")


def put(run, name, at, form, *numbers, says):
    """Numbers that no run leaves, in one file: refused, with the value and the number."""
    checkpoints.copy(run.path, run.work)
    manifest = checkpoints.Manifest(run.work, run.newer)
    (path,) = [path for _, found, path in manifest.files() if re.fullmatch(name, found)]
    with open(path, "rb") as file:
        data = bytearray(file.read())
    struct.pack_into("<" + form, data, at, *numbers)
    checkpoints.replace(path, bytes(data))
    manifest.write()
    said = run.resume(expect=2)
    check(re.search(says, said), f"{name}: {said}")


def check_numbers(run):
    huge = 2**33
    put(run, "counters.0", 0, "q", -1, says=r"'counters.0'.*of no run: env_step is -1, expected 0 to")
    put(run, "replay.0", 0, "qq", huge, 0, says=r"'replay.0'.*of no run: lost is 0, expected")
    put(run, "replay.0", 64, "q", -5, says=r"'replay.0'.*of no run: shown\[0\] is -5")
    put(run, "result", 32, "q", 2 * 10**9, says=r"'result'.*of no run: episodes is 2000000000, expected 5 to 5")
    put(run, "policy", 0, "f", float("nan"), says=r"'policy'.*of no run: parameter\[0\] is -?nan")
    put(run, "episodes.1", 0, "q", -huge, says=r"'episodes.1'.*of no run: pushes\[0\] is -8589934592")
    size = 64 * 4  # the first arrays of `envs`: count, best mean, its update, seeds
    put(run, "eval_envs", 64 * 2, "q", -2, says=r"'eval_envs'.*of no run: best_update is -2")
    put(run, "eval_envs", 64, "d", float("nan"), says=r"'eval_envs'.*of no run: best_mean\[0\] is -?nan")
    put(run, "envs.0", size, "q", 2**60, says=r"'envs.0'.*of no run: episode\[0\] is")
    put(run, "envs.0", 0, "q", huge, says=r"'envs' cannot be loaded: the file has 8589934592 envs")


def check_metadata(run):
    """Paths and lengths of logs, and the counters of the executor."""
    outside = run.work + "_outside"
    checkpoints.replace(outside, b"keep me")
    for change, says in ((lambda m: m["run"]["log"].update(board="../../../" + os.path.basename(outside)), "board"),
                         (lambda m: m["run"]["log"]["texts"].update({"../../x": 1}), "log"),
                         (lambda m: m["run"]["log"].update(board_bytes=-1), "board_bytes"),
                         (lambda m: m["executor"]["counters"].update(update=-3), "update is -3"),
                         (lambda m: m["executor"]["counters"].update(iteration=2**60), "iteration is"),
                         (lambda m: [step.update(next_due=2**62) for step in m["executor"]["steps"]], "next_due is")):
        checkpoints.copy(run.path, run.work)
        manifest = checkpoints.Manifest(run.work, run.newer)
        change(manifest.json["metadata"])
        manifest.write()
        said = run.resume(expect=2)
        check(says in said, said)
    with open(outside, "rb") as file:
        check(file.read() == b"keep me", "a file outside the run was touched")


def main():
    with Scratch() as scratch:
        dqn = Run(scratch, "dqn")
        check_numbers(dqn)
        check_metadata(dqn)
        for name in RUNS if ROUNDS > 50 else ["dqn"]:
            run = dqn if name == "dqn" else Run(scratch, name)
            check_named(run, ROUNDS)
            check_refused(run, ROUNDS)


if __name__ == "__main__":
    main()
