#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that read other data, or step environments of another code or ROM, than rank 0 end at the start: exit code 2 on
both, with what each of them has. So does a run that would go on with others than its checkpoint's. The same data in
another place are the same. runtime.allow_origin_mismatch makes a warning of it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nodes import Nodes, address_of  # noqa: E402
from runner import (CONFIG, ROOT, RUNNER, SECRET, SLOWDOWN, Scratch, call, check, environment, free_port, result,  # noqa: E402
                    sets, train)

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
CORRIDOR = os.path.join(ROOT, "kernels/envs/example/corridor.c")
ENV = """
import gymnasium
import numpy as np

class Short(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, table=None):
        self.table = table

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(3, np.float32), {{}}

    def step(self, action):
        return self.np_random.random(3, np.float32), {reward}, False, False, {{}}
"""
ALLOWED = dict(runtime__allow_origin_mismatch="true")


def run_two(config, folders, variables, nodes=None, **keys):
    """Ranks 0 and 1, each in a folder, FOLDER in keys, and with variables of its own: exit codes and what they say."""
    port, ranks = free_port(), []
    for rank, folder in enumerate(folders):
        alone = environment(RANK=rank, LOCAL_RANK=0 if nodes else rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=1 if nodes else 2,
                            MASTER_ADDR=address_of(0) if nodes else "127.0.0.1", MASTER_PORT=port, HEDDLE_SECRET=SECRET,
                            **variables[rank])
        command = [*(nodes.inside(rank) if nodes else []), RUNNER, "run", config, "--dir", f"{folders[0]}-{port}", "--quiet",
                   *(word.replace("FOLDER", folder) for word in sets(**keys))]
        ranks.append(subprocess.Popen(command, cwd=folder, env=alone, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT))
    said = [rank.communicate(timeout=50 * SLOWDOWN)[0] for rank in ranks]  # less than ranks wait for one that is away
    return [rank.returncode for rank in ranks], "\n".join(said)


def check_two(names, config, folders, variables, nodes=None, **keys):
    """Two ranks that differ in what `names` say."""
    codes, said = run_two(config, folders, variables, nodes, **keys)
    check(codes == [2, 2] and "rank 1: " in said and all(name in said for name in names), f"{codes}: {said}")


def check_allowed(config, folders, variables, **keys):
    codes, said = run_two(config, folders, variables, **keys, **ALLOWED)
    check(codes == [0, 0] and said.count("warning") == 1, f"{codes}: {said}")


def check_same(config, folders, variables, **keys):
    codes, said = run_two(config, folders, variables, **keys)
    check(codes == [0, 0] and "warning" not in said, f"{codes}: {said}")


def go_on(directory, config, env=None, expect=0, **keys):
    """What a run says that goes on to its next 10 updates."""
    more = result(directory)["train_iter"] + 10
    return call("run", config, "--dir", directory, "--quiet", "--resume", *sets(**dict(keys, max_train_iter=more)), env=env,
                expect=expect).stderr


def check_resume(names, directory, config, env=None, **keys):
    """A run whose origins are others than its checkpoint's; that this can be allowed, and is then the run's own."""
    said = go_on(directory, config, env, 2, **keys)
    check("in the checkpoint" in said and all(name in said for name in names), said)
    said = go_on(directory, config, env, **keys, **ALLOWED)
    check("in the checkpoint" in said and "warning" in said, said)
    check(go_on(directory, config, env, **keys) == "", "the data and code of the last checkpoint")


def read_origins(weights):
    with open(weights, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return json.loads(header["__metadata__"].get("heddle_origins", "{}"))


def record(weights, folder, seed, transitions):
    os.makedirs(folder, exist_ok=True)
    call("record", CONFIG, "--weights", weights, "--transitions", str(transitions), "--seed", str(seed), "--epsilon", "0.5",
         "--out", os.path.join(folder, "demos"))


def check_data(scratch):
    train(scratch("dqn"), max_train_iter=10, env__stop_value="1e9")
    weights = scratch("dqn/ckpt/iteration_10/policy.safetensors")
    check(read_origins(weights) == {}, "built-in environments have no origin but the program")
    for name, seed, transitions in (("a", 1, 500), ("b", 2, 500), ("c", 1, 300), ("d", 1, 500)):
        record(weights, scratch(name), seed, transitions)
    keys = dict(policy__collect__data_path="demos", max_train_iter=20, world__shards=2, env__stop_value="1e9")
    check_two(["dataset is"], CLONE, [scratch("a"), scratch("b")], [{}, {}], **keys)
    check_two(["500 transitions", "300 transitions"], CLONE, [scratch("a"), scratch("c")], [{}, {}], **keys)
    check_allowed(CLONE, [scratch("a"), scratch("b")], [{}, {}], **keys)
    check_same(CLONE, [scratch("a"), scratch("d")], [{}, {}], **dict(keys, policy__collect__data_path="FOLDER/demos"))
    check_moved(scratch, dict(keys, world__shards=1))


def check_moved(scratch, keys):
    """A data set that was moved goes on, another one does not."""
    def lie(folder):
        return dict(keys, policy__collect__data_path=scratch(f"{folder}/demos"))

    directory = scratch("cloned")
    train(directory, config=CLONE, **lie("a"))
    check("500 transitions" in read_origins(f"{directory}/ckpt/iteration_20/policy.safetensors")["dataset"], "no origin")
    check(go_on(directory, CLONE, **lie("d")) == "", "a data set that was moved")
    check_resume(["dataset is"], directory, CLONE, **lie("b"))
    for more in ({}, ALLOWED):  # places in another number of transitions mean nothing
        said = go_on(directory, CLONE, None, 2, **lie("c"), **more)
        check("500" in said and "300" in said, said)


def build_plugins(scratch):
    """One environment with two rewards, each in a folder of its own."""
    with open(CORRIDOR, encoding="utf-8") as file:
        text = file.read()
    for name, reward in (("one", "1"), ("two", "2")):
        os.makedirs(scratch(name), exist_ok=True)
        source = scratch(f"{name}.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text.replace("outcome->reward[i] = right ? 1", f"outcome->reward[i] = right ? {reward}"))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}", "-o", scratch(f"{name}/heddle_env_corridor.so"), source],
                       check=True)
    return [{"HEDDLE_PLUGINS": scratch(name)} for name in ("one", "two")]


PLUGIN = dict(env__type="corridor", policy__model__obs_shape=9, policy__model__action_shape=2, max_train_iter=10,
              world__shards=2, env__stop_value="1e9")


def check_plugin(scratch):
    variables, folders = build_plugins(scratch), [scratch("a"), scratch("a")]
    check_two(["envs is plug-in corridor", "eval_envs is"], CONFIG, folders, variables, **PLUGIN)
    check_allowed(CONFIG, folders, variables, **PLUGIN)
    check_same(CONFIG, folders, variables[:1] * 2, **PLUGIN)
    first, second = (environment(**one) for one in variables)
    directory = scratch("walked")
    train(directory, env=first, **PLUGIN)
    check("plug-in corridor" in read_origins(f"{directory}/ckpt/iteration_10/policy.safetensors")["envs"], "no origin")
    for env, warnings in ((first, 0), (second, 1)):
        said = call("eval", directory, "--episodes", "1", env=env).stderr
        check(said.count("warning") == warnings, said)
    check_resume(["envs is plug-in corridor"], directory, CONFIG, second, **PLUGIN)


def check_python(scratch):
    """A module that the environment is made of, found elsewhere by rank 1; once with declared spaces; and a file that a
    keyword argument names."""
    python = os.path.join(ROOT, "build/plugins/gymnasium")
    if not os.path.exists(python):
        return
    for name, reward in (("py_one", 1.0), ("py_two", 2.0)):
        os.makedirs(scratch(name), exist_ok=True)
        with open(scratch(f"{name}/my_env.py"), "w", encoding="utf-8") as file:
            file.write(ENV.format(reward=reward))
        with open(scratch(f"{name}/table.txt"), "w", encoding="utf-8") as file:
            file.write(name)
    keys = dict(env__type="gymnasium", env__env_id="my_env:Short", env__options__python=python, max_train_iter=4,
                world__shards=2, env__stop_value="1e9", policy__eval__at_limit="false", policy__model__obs_shape="auto",
                policy__model__action_shape="auto", env__options__max_episode_steps=20)
    declared = dict(keys, env__options__obs_shape=3, env__options__actions=2)
    folders, variables = [scratch("a")] * 2, [{"PYTHONPATH": scratch(name)} for name in ("py_one", "py_two")]
    check_two(["envs is plug-in gymnasium", "code ", "gymnasium 1"], CONFIG, folders, variables, **keys)
    check_two(["code "], CONFIG, folders, variables, **declared)
    check_same(CONFIG, folders, variables[:1] * 2, **declared)
    check_two(["env.options.kwargs.table is file "], CONFIG, [scratch("py_one"), scratch("py_two")], variables[:1] * 2,
              env__options__kwargs="{table: table.txt}", **declared)


def md5_of(path):
    with open(path, "rb") as file:
        return hashlib.md5(file.read()).hexdigest()


def check_rom(scratch, nodes):
    """Pong, and in its place another game of as many actions."""
    plugins = os.path.join(ROOT, "build/plugins")
    if not os.path.exists(f"{plugins}/heddle_env_atari.so"):
        return
    for name, game in (("pong", "pong"), ("other", "carnival")):
        os.makedirs(scratch(f"{name}/atari_roms"))
        shutil.copy(f"{plugins}/heddle_env_atari.so", scratch(name))
        shutil.copy(f"{plugins}/atari_roms/{game}.bin", scratch(f"{name}/atari_roms/pong.bin"))
    variables = [{"HEDDLE_PLUGINS": scratch(name)} for name in ("pong", "other")]
    hashes = [md5_of(scratch(f"{name}/atari_roms/pong.bin")) for name in ("pong", "other")]
    check_two([f"ROM {one}" for one in hashes], os.path.join(ROOT, "configs/pong_dqn_ddp.yaml"), [scratch("a")] * 2,
              variables, nodes, max_train_iter=1, policy__other__replay_buffer__replay_buffer_size=1000)


def check_nodes(scratch):
    """Two nodes, of which one has other data, another plug-in or another ROM."""
    with Nodes(1000) as nodes:
        check_two(["500 transitions", "300 transitions"], CLONE, [scratch("a"), scratch("c")], [{}, {}], nodes,
                  policy__collect__data_path="demos", world__shards=2)
        variables = [{"HEDDLE_PLUGINS": scratch(name)} for name in ("one", "two")]
        check_two(["envs is plug-in corridor"], CONFIG, [scratch("a")] * 2, variables, nodes, **PLUGIN)
        check_rom(scratch, nodes)


def main():
    with Scratch() as scratch:
        check_data(scratch)
        check_plugin(scratch)
        check_python(scratch)
        print("other data and other code on a rank, or than a checkpoint's, are refused")
        check_nodes(scratch)


main()
