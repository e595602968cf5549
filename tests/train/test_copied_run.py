#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run file that is copied elsewhere finds its graph and strategy beside it, or else among the program's own files: of
the clone, or of an installation, which may have been moved."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runner  # noqa: E402
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, train  # noqa: E402

FEW = {"max_train_iter": 3, "env__stop_value": "1e9"}
GRAPH = "graphs/dqn.yaml"


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    return shutil.copy(source, target)


def refuse(config, *options):
    return call("graph", config, *options, expect=2).stderr


def check_clone(scratch, config):
    """The same bits as beside the graph."""
    hashes = {train(scratch(name), "--strategy", "pipelined", config=path, **FEW)["param_hash"]
              for name, path in (("original", CONFIG), ("copied", config))}
    check(len(hashes) == 1, f"the copied run file learns {hashes}")
    preset = copy(os.path.join(ROOT, "configs/presets/ppo.yaml"), scratch("mine/ppo.yaml"))
    call("graph", preset, "--set", "env.type=cartpole")
    call("graph", "presets/ppo.yaml", "--set", "env.type=cartpole", cwd=scratch.path)
    check("presets/pqo.yaml: the config cannot be read" in refuse("presets/pqo.yaml"), "a name that no run file has")
    said = refuse(config, "--set", "graph=graphs/dqm.yaml")
    for place in (os.path.join(os.path.dirname(config), "graphs/dqm.yaml"), "share/heddle/configs/graphs/dqm.yaml", "dqn.yaml"):
        check(place in said, f"no {place} in: {said}")
    said = refuse(config, "--set", "graph=/graphs/dqn.yaml")
    check("/graphs/dqn.yaml" in said and "share/heddle" not in said, said)


def check_installation(scratch, config):
    """A program with companions that are told by a mistake in them."""
    for place in ("bin", "lib/heddle/x86-64-v2"):
        runner.RUNNER = copy(RUNNER, scratch(f"first/{place}/runner"))
        os.rename(scratch("first"), scratch(place.replace("/", "_")))
        prefix = scratch(place.replace("/", "_"))
        runner.RUNNER = os.path.join(prefix, place, "runner")
        path = os.path.join(prefix, "share/heddle/configs/graphs/dqn.yaml")
        said = refuse(config)
        check(path in said, f"no {path} in: {said}")
        copy(os.path.join(ROOT, "configs/strategies/serial.yaml"), os.path.join(prefix, "share/heddle/configs/strategies/serial.yaml"))
        copy(os.path.join(ROOT, "configs", GRAPH), path)
        call("graph", config)
        with open(path, "a", encoding="utf-8") as file:
            file.write("mistaken: 1\n")
        said = refuse(config)
        check(f"{path}:" in said and "mistaken" in said, said)
    copy(os.path.join(ROOT, "configs", GRAPH), os.path.join(os.path.dirname(config), GRAPH))
    call("graph", config)


def main():
    with Scratch() as scratch:
        config = copy(CONFIG, scratch("mine/cartpole.yaml"))
        check_clone(scratch, config)
        check_installation(scratch, config)


main()
