#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that read other data, or step environments of another code, than rank 0 end at the start: exit code 2 on both,
with what each of them has. The same data in another place is the same."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, Scratch, call, check, environment, free_port, sets, train  # noqa: E402

CLONE = os.path.join(ROOT, "configs/cartpole_bc_ddp.yaml")
CORRIDOR = os.path.join(ROOT, "kernels/envs/example/corridor.c")
ENV = """
import gymnasium
import numpy as np

class Short(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(3, np.float32), {{}}

    def step(self, action):
        return self.np_random.random(3, np.float32), {reward}, False, False, {{}}
"""


def run_two(config, folders, variables, **keys):
    """Ranks 0 and 1, each in a folder and with variables of its own: exit codes and what they say."""
    port, ranks = free_port(), []
    for rank, folder in enumerate(folders):
        alone = environment(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1",
                            MASTER_PORT=port, HEDDLE_SECRET="0123456789" * 4, **variables[rank])
        command = [RUNNER, "run", config, "--dir", f"{folders[0]}-{port}", "--quiet", *sets(**keys)]
        ranks.append(subprocess.Popen(command, cwd=folder, env=alone, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT))
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    return [rank.returncode for rank in ranks], "\n".join(said)


def record(weights, folder, seed, transitions):
    os.makedirs(folder, exist_ok=True)
    call("record", CONFIG, "--weights", weights, "--transitions", str(transitions), "--seed", str(seed), "--epsilon", "0.5",
         "--out", os.path.join(folder, "demos"))


def check_data(scratch):
    train(scratch("dqn"), max_train_iter=10, env__stop_value="1e9")
    weights = scratch("dqn/ckpt/iteration_10/policy.safetensors")
    for name, seed, transitions in (("a", 1, 500), ("b", 2, 500), ("c", 1, 300), ("d", 1, 500)):
        record(weights, scratch(name), seed, transitions)
    keys = dict(policy__collect__data_path="demos", max_train_iter=20, world__shards=2, env__stop_value="1e9")
    for other in "bc":
        codes, said = run_two(CLONE, [scratch("a"), scratch(other)], [{}, {}], **keys)
        check(codes == [2, 2], f"{codes}: {said}")
        check("rank 1" in said and "500 transitions" in said and "300 transitions" in said or other == "b", said)
    codes, said = run_two(CLONE, [scratch("a"), scratch("d")], [{}, {}], **keys)
    check(codes == [0, 0], f"the same data: {codes}: {said}")


def check_plugin(scratch):
    with open(CORRIDOR, encoding="utf-8") as file:
        text = file.read()
    for name, reward in (("one", "1"), ("two", "2")):
        os.makedirs(scratch(name), exist_ok=True)
        source = scratch(f"{name}.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text.replace("outcome->reward[i] = right ? 1", f"outcome->reward[i] = right ? {reward}"))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}", "-o", scratch(f"{name}/heddle_env_corridor.so"), source],
                       check=True)
    keys = dict(env__type="corridor", policy__model__obs_shape=9, policy__model__action_shape=2, max_train_iter=10,
                world__shards=2, env__stop_value="1e9")
    variables = [{"HEDDLE_PLUGINS": scratch(name)} for name in ("one", "two")]
    folders = [scratch("a"), scratch("a")]
    codes, said = run_two(CONFIG, folders, variables, **keys)
    check(codes == [2, 2] and "plug-in corridor" in said, f"{codes}: {said}")
    codes, said = run_two(CONFIG, folders, variables[:1] * 2, **keys)
    check(codes == [0, 0], f"the same plug-in: {codes}: {said}")


def check_python(scratch):
    """A module that the environment is made of, found elsewhere by rank 1; once with declared spaces."""
    python = os.path.join(ROOT, "build/plugins/gymnasium")
    if not os.path.exists(python):
        return
    for name, reward in (("py_one", 1.0), ("py_two", 2.0)):
        os.makedirs(scratch(name), exist_ok=True)
        with open(scratch(f"{name}/my_env.py"), "w", encoding="utf-8") as file:
            file.write(ENV.format(reward=reward))
    keys = dict(env__type="gymnasium", env__env_id="my_env:Short", env__options__python=python, max_train_iter=4,
                world__shards=2, env__stop_value="1e9", policy__eval__at_limit="false", policy__model__obs_shape="auto",
                policy__model__action_shape="auto", env__options__max_episode_steps=20)
    declared = dict(keys, env__options__obs_shape=3, env__options__actions=2)
    folders, variables = [scratch("a")] * 2, [{"PYTHONPATH": scratch(name)} for name in ("py_one", "py_two")]
    for given in (keys, declared):
        codes, said = run_two(CONFIG, folders, variables, **given)
        check(codes == [2, 2] and "code " in said and "gymnasium " in said, f"{codes}: {said}")
    codes, said = run_two(CONFIG, folders, variables[:1] * 2, **declared)
    check(codes == [0, 0], f"the same code: {codes}: {said}")


def main():
    with Scratch() as scratch:
        check_data(scratch)
        check_plugin(scratch)
        check_python(scratch)
        print("other data and other code on a rank are refused")


main()
