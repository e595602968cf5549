#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thousands of changed inputs of every kind: configs, graphs, strategies, run folders, checkpoints with right
hashes, weights, data sets, observations, options. Each is accepted, or refused with a sentence and an exit code of
ours; none crashes the program, finds a sanitizer's word or runs for ever. It is meant for a runner that was built
with sanitizers (HD_RUNNER). HD_MUTATIONS sets the rounds of each kind, HD_SEED where the draws begin."""

import json
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import checkpoints  # noqa: E402
import runner  # noqa: E402
from runner import ROOT, Scratch, call, check, environment, sets  # noqa: E402

ROUNDS = int(os.environ.get("HD_MUTATIONS", "550"))
SEED = int(os.environ.get("HD_SEED", "1"))
CODES = (0, 1, 2, 3, 4, 75)
LIMITED = sets(max_train_iter=30, env__stop_value="1e9", runtime__allow_fingerprint_mismatch="true")
WORDS = ("0", "-1", "1e308", "9223372036854775807", "nan", "true", "[]", "{}", "[1, 2]", "~", "\"\"", "x" * 300, "&a", "*a", "!!t",
         "$strategy.x", "update", "1 update", "replay.size >= 1", "../x", "%s%n", "é")


class Campaign:
    def __init__(self, scratch):
        self.scratch, self.failures, self.counts = scratch, [], {}

    def run(self, kind, seed, *arguments, what=""):
        try:
            done = subprocess.run([runner.RUNNER, *arguments], capture_output=True, timeout=300, cwd=self.scratch.path,
                                  env=environment(ASAN_OPTIONS="detect_leaks=0"))
            code, said = done.returncode, done.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, said = "too long", ""
        bad = code not in CODES or re.search(r"Sanitizer|runtime error:|Assertion", said) or (code != 0 and not said.strip())
        if bad:
            found = [line for line in said.splitlines() if re.search(r"ERROR|runtime error|#[0-3] ", line)][:5] or said[-300:]
            self.failures.append(f"{kind} {seed} {what}: {code} {found}")
            print(self.failures[-1], flush=True)
        self.counts.setdefault(kind, {}).setdefault(str(code), 0)
        self.counts[kind][str(code)] += 1


def mutate_text(text, draw):
    lines = text.split("\n")
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(lines))
        how = draw.randrange(6)
        if how == 0:
            del lines[at]
            lines = lines or [""]
        elif how == 1:
            lines.insert(at, draw.choice(lines))
        elif how == 2:
            lines[at] = re.sub(r": *([^ ,}\]]+)", lambda _: ": " + draw.choice(WORDS), lines[at], count=1)
        elif how == 3:
            words = re.findall(r"\w+", lines[at])
            if words:
                lines[at] = lines[at].replace(draw.choice(words), draw.choice(WORDS), 1)
        elif how == 4:
            start = draw.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:start] + draw.choice("{}[],:#&*!|>'\"%@`\t \0") + lines[at][start:]
        else:
            lines[at] = "  " * draw.randrange(4) + lines[at].strip()
    return "\n".join(lines).replace("\0", "")


def mutate_files(campaign, rounds):
    """Configs, graphs and strategies, planned but not run."""
    folder = campaign.scratch("configs")
    shutil.copytree(os.path.join(ROOT, "configs"), folder)
    configs = sorted(name for name in os.listdir(folder) if name.endswith(".yaml") and not name.startswith("pong"))
    paths = [*configs, *(f"{kind}/{name}" for kind in ("graphs", "strategies") for name in os.listdir(os.path.join(folder, kind)))]
    for seed in range(rounds):
        draw = random.Random(f"{SEED} files {seed}")
        name = draw.choice(paths)
        config = name if "/" not in name else draw.choice(configs)
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(mutate_text(text, draw))
        more = {"graphs": sets(graph=name), "strategies": sets(strategy=name)}.get(name.split("/")[0], [])
        campaign.run("files", seed, "graph", os.path.join(folder, config), *more, what=name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def mutate_options(campaign, rounds):
    words = ["run", "launch", "graph", "eval", "report", "trace", "compare", "keys", "verbs", "bench", "doctor", runner.CONFIG, "--set",
             "--dir", "--resume", "--weights", "--nproc-per-node", "--rank", "--ranks", "--help", "--quiet", "--trace", "--seed", "--strategy",
             "policy.learn.batch_size=64", "=", "a=b", "--", "-", "-1", "0", "2", "99999999999999999999", "", "/", "no/such", "--x", *WORDS]
    for seed in range(rounds):
        draw = random.Random(f"{SEED} options {seed}")
        verb = draw.choice(("graph", "keys", "verbs", "report", "trace", "compare", "eval", *words))
        arguments = [verb, *draw.choices(words, k=draw.randrange(6))]
        if {"run", "launch", "bench", "doctor"} & set(arguments[:1]):
            arguments += ["--no-such-option"]
        campaign.run("options", seed, *arguments, what=arguments)


def mutate_checkpoints(campaign, rounds):
    keys = dict(env__stop_value="1e9", world__shards=2, runtime__allow_fingerprint_mismatch="true")
    run, work = campaign.scratch("run"), campaign.scratch("work")
    checkpoints.make_run(run, runner.CONFIG, keys)
    newest = checkpoints.iterations(run)[-1]
    for seed in range(rounds):
        draw = random.Random(f"{SEED} checkpoints {seed}")
        checkpoints.copy(run, work)
        checkpoints.damage_rightly(work, newest, draw)
        campaign.run("checkpoints", seed, "run", runner.CONFIG, "--resume", work, "--quiet", *sets(**dict(keys, max_train_iter=60)))
    return run


def mutate_folder(campaign, run, rounds):
    """What report, trace and compare read of a run, and what --resume finds."""
    work = campaign.scratch("folder")
    for seed in range(rounds):
        draw = random.Random(f"{SEED} folders {seed}")
        checkpoints.copy(run, work)
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(work) for name in names if "state" not in folder]
        path = draw.choice(sorted(paths))
        with open(path, "rb") as file:
            data = file.read()
        checkpoints.replace(path, checkpoints.mutate(data, draw))
        verb = draw.choice((("report", work), ("compare", work, run), ("run", runner.CONFIG, "--resume", work, "--quiet", *LIMITED)))
        campaign.run("folders", seed, *verb, what=os.path.relpath(path, work))


def mutate_weights(campaign, rounds):
    run, path = campaign.scratch("weights_of"), campaign.scratch("w.safetensors")
    call("run", runner.CONFIG, "--dir", run, "--quiet", *sets(max_train_iter=20))
    with open(os.path.join(run, "ckpt/best/policy.safetensors"), "rb") as file:
        data = file.read()
    for seed in range(rounds):
        draw = random.Random(f"{SEED} weights {seed}")
        checkpoints.replace(path, mutate_tensors(data, draw))
        campaign.run("weights", seed, "eval", runner.CONFIG, "--weights", path, "--episodes", "1")
    return os.path.join(run, "ckpt/best/policy.safetensors")


def mutate_tensors(data, draw):
    """A safetensors file with another header, or other bytes."""
    length = int.from_bytes(data[:8], "little")
    if draw.random() < 0.5:
        return checkpoints.mutate(data, draw)
    header = json.loads(data[8:8 + length])
    checkpoints.mutate_json(header, draw)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length:]


def mutate_data_sets(campaign, weights, rounds):
    config, data = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml"), campaign.scratch("data")
    call("record", runner.CONFIG, "--weights", weights, "--transitions", "500", "--out", data)
    names, work = sorted(os.listdir(data)), campaign.scratch("bc")
    for seed in range(rounds):
        draw = random.Random(f"{SEED} data {seed}")
        changed = campaign.scratch("changed")
        shutil.rmtree(changed, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(data, changed)
        name = draw.choice(names)
        path = os.path.join(changed, name)
        if draw.random() < 0.1:
            os.rename(path, os.path.join(changed, draw.choice(("transitions-00001-of-20000000.safetensors", "transitions--1-of-1.safetensors",
                                                                "transitions-00002-of-00002.safetensors"))))
        else:
            with open(path, "rb") as file:
                content = file.read()
            checkpoints.replace(path, mutate_tensors(content, draw))
        campaign.run("data sets", seed, "run", config, "--dir", work, "--quiet", *LIMITED, *sets(policy__collect__data_path=changed))


def mutate_obs(campaign, weights, rounds):
    header = json.dumps({"obs": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}).encode()
    data, path = len(header).to_bytes(8, "little") + header + bytes(64), campaign.scratch("obs.safetensors")
    for seed in range(rounds):
        draw = random.Random(f"{SEED} obs {seed}")
        checkpoints.replace(path, mutate_tensors(data, draw))
        campaign.run("observations", seed, "eval", runner.CONFIG, "--weights", weights, "--obs", path)


def main():
    with Scratch() as scratch:
        campaign = Campaign(scratch)
        mutate_files(campaign, 3 * ROUNDS)
        mutate_options(campaign, ROUNDS)
        run = mutate_checkpoints(campaign, 2 * ROUNDS)
        mutate_folder(campaign, run, ROUNDS)
        weights = mutate_weights(campaign, ROUNDS)
        mutate_data_sets(campaign, weights, ROUNDS // 2)
        mutate_obs(campaign, weights, ROUNDS // 2)
        for kind, codes in campaign.counts.items():
            print(f"{kind}: {sum(codes.values())}, by exit code {codes}")
        check(not campaign.failures, f"{len(campaign.failures)} failures\n" + "\n".join(campaign.failures))


if __name__ == "__main__":
    main()
