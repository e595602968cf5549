#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Observations of several parts, from end to end: an environment's Dict comes apart bit by bit, a net of several inputs
learns what neither part says alone, its bits are those of one and two ranks and of a resumed run, its policy acts on
dicts, and what is wrong is told with its place. Without inputs the same Dict is flattened."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, RUNNER, Scratch, call, check, result, sets, skip, train  # noqa: E402

PLUGINS = os.path.join(os.path.dirname(RUNNER), "plugins")
PYTHON = os.path.join(PLUGINS, "gymnasium/bin/python")
ENVS = os.path.join(ROOT, "tests/kernels/envs")
if not os.path.exists(PYTHON):
    skip("there is no Python with Gymnasium (scripts/gymnasium makes one)")
if os.environ.get("HD_INPUTS") != "1":
    os.execve(PYTHON, [PYTHON, os.path.abspath(__file__)], dict(os.environ, HD_INPUTS="1", HEDDLE_PLUGINS=PLUGINS))
sys.path[:0] = [ENVS, os.path.join(ROOT, "python")]

import numpy as np  # noqa: E402
from parts_env import Bars  # noqa: E402
from plugin import Group, open_plugin  # noqa: E402

HEAD = f"""exp_name: bars
graph: {ROOT}/configs/graphs/ppo.yaml
strategy: {ROOT}/configs/strategies/serial.yaml
world: {{shards: 2}}
max_env_step: 40000
env:
  type: gymnasium
  env_id: parts_env:Bars
  options: {{path: {ENVS}, python: {os.path.dirname(os.path.dirname(PYTHON))}, max_episode_steps: 50}}
  collector_env_num: 8
  evaluator_env_num: 4
  n_evaluator_episode: 4
  stop_value: 15.5
policy:
  type: ppo
  learn: {{epoch_per_collect: 4, batch_size: 64, learning_rate: 0.001}}
  collect: {{n_sample: 512, discount_factor: 0.9}}
  eval: {{evaluator: {{eval_freq: 96}}}}
  model:
"""
INPUTS = """    inputs:
      image: {obs: camera, layers: [{conv: {channels: 8, kernel: 3, stride: 2}}, relu, flatten]}
      vector: {obs: state, layers: [{dense: 16}, tanh]}
"""
REST = """    layers: [{dense: 32}, relu]
    heads: {policy: {type: categorical}, value: {type: dense}}
"""


def write(scratch, name, text):
    with open(scratch(name), "w", encoding="utf-8") as file:
        file.write(text)
    return scratch(name)


def flatten(obs, parts):
    """A frame as the plug-in shows it, by hand."""
    camera = np.moveaxis(obs["camera"], 2, 0)
    numbers = obs["state"].astype(np.float32)
    return (np.concatenate([camera.reshape(-1), numbers.view(np.uint8)]) if parts else
            np.concatenate([obs["camera"].reshape(-1).astype(np.float32), numbers]))


def check_parts():
    """Frames have the bits of the environment's arrays, apart and flattened."""
    plugin = open_plugin(os.path.join(PLUGINS, "heddle_env_gymnasium.so"))
    for parts in (True, False):
        group = Group(plugin, "parts_env:Bars", {"python": PYTHON, "path": ENVS, "max_episode_steps": "50"}, parts=parts)
        spec, env = group.spec, Bars()
        names = [(part.name, part.element, list(part.shape[:part.dims])) for part in spec.part[:spec.n_parts]]
        check(names == ([(b"camera", 1, [3, 12, 10]), (b"state", 0, [3])] if parts else []), f"{names}")
        group.reset(5)
        shown = [env.reset(seed=5)[0]]
        for step in range(10):
            check(group.obs[0].tobytes() == flatten(shown[-1], parts).tobytes(), f"step {step}: other bits")
            group.step(np.array([[step % 2]], np.int32))
            shown.append(env.step(step % 2)[0])


def check_runs(scratch, config):
    """It learns, and its bits do not depend on ranks, workers, executor and a stop."""
    whole = train(scratch("whole"), config=config)
    check(whole["reason"] == "solved", f"{whole}")
    wanted = whole["param_hash"]
    for name, keys in (("ranks", {"ranks": 2}), ("sequential", {"runtime__executor": "sequential"}),
                       ("pickles", {"env__options__save": "pickle"})):
        found = train(scratch(name), config=config, **keys)["param_hash"]
        check(found == wanted, f"{name}: {found}, not {wanted}")
    for save in ("actions", "pickle"):
        keys = {"env__options__save": save}
        train(scratch(save), config=config, max_train_iter=64, **keys)
        call("run", config, "--dir", scratch(save), "--resume", *sets(**keys))
        found = result(scratch(save))["param_hash"]
        check(found == wanted, f"resumed ({save}): {found}, not {wanted}")
    order = INPUTS.splitlines()
    turned = write(scratch, "turned.yaml", HEAD + "\n".join([order[0], order[2], order[1], ""]) + REST)
    said = call("run", turned, "--dir", scratch("pickle"), "--resume", *sets(env__options__save="pickle"), expect=2).stderr
    check("policy.model.inputs: {image, vector}" in said and "{vector, image} now" in said, said)
    print(f"one rank, two, and resumed runs end in {wanted} after {whole['train_iter']} updates")


def check_config(scratch, config):
    """The effective config describes the parts, and a policy is loaded and evaluated by it alone."""
    with open(scratch("whole/total_config.yaml"), encoding="utf-8") as file:
        check(re.search(r"obs_shape:.*\n\s+camera: \[3, 12, 10\]\n\s+state: \[3\]\n", file.read()), "no parts")
    returns = re.search(r"returns (.*)", call("eval", scratch("whole")).stdout)[1].split()
    check(returns == ["16"] * 4, f"{returns}")
    nets = call("graph", scratch("whole/total_config.yaml"), "--allow-plugin").stdout
    check("observations: {camera: [3, 12, 10], state: [3]}, 372 bytes" in nets, nets)
    check("camera: bytes [3, 12, 10]\n" in (said := call("check-env", config).stdout), said)


def check_other_algorithms(scratch, config):
    """Two frames and a replay (dqn); a recurrent net; a data set and behaviour cloning; nested parts."""
    q = {"policy__type": "dqn", "graph": f"{ROOT}/configs/graphs/dqn.yaml", "env__frame_stack": 2,
         "policy__model__heads": "{q: {type: dueling}}", "policy__learn__epoch_per_collect": 10,
         "policy__learn__update_per_collect": 4, "policy__collect__n_sample": 64}
    check(train(scratch("dqn"), config=config, **q)["reason"] == "solved", "dqn does not learn")
    train(scratch("gru"), config=config, policy__model__layers="[{gru: 16}]", policy__collect__unroll_len=8,
          policy__collect__segment_at_done="false", max_train_iter=32)
    call("record", scratch("whole"), "--transitions", "512", "--out", scratch("data"))
    clone = {"policy__type": "bc", "graph": f"{ROOT}/configs/graphs/bc.yaml", "policy__model__heads": "{policy: {type: categorical}}",
             "policy__collect__data_path": scratch("data"), "policy__learn__train_epoch": 60, "policy__learn__batch_size": 32}
    check(train(scratch("bc"), config=config, **clone)["reason"] == "solved", "bc does not learn")
    other = sets(**clone, policy__model__inputs="{}", policy__model__obs_shape=363)
    said = call("run", config, "--dir", scratch("other"), *other, expect=2).stderr
    check("are {camera: [3, 12, 10], state: [3]} pixels, but policy.model.obs_shape means [363] floats" in said, said)
    parts = "{all: {obs: camera, layers: [flatten]}, numbers: {obs: state.numbers}, phase: {obs: state.phase}}"
    nested = dict(env__options__kwargs__nested="true", policy__model__inputs=parts)
    train(scratch("nested"), config=config, max_train_iter=32, **nested)


def check_policy(scratch):
    """A loaded policy acts on dicts and on rows of bytes alike, and its environments show dicts."""
    with open(os.environ["HEDDLE_INFER_LIBRARY"], "rb") as library:
        if re.search(rb"lib[at]san\.so", library.read()):
            return  # Python would have to load the sanitizer first
    import heddle
    policy, env = heddle.load(scratch("whole")), Bars()
    check(policy.observation_parts == {"camera": ((3, 12, 10), np.uint8), "state": ((3,), np.float32)},
          f"{policy.observation_parts}")
    rows, dicts = [], []
    for seed in range(6):
        obs = env.reset(seed=seed)[0]
        rows.append(flatten(obs, True))
        dicts.append({"camera": np.moveaxis(obs["camera"], 2, 0), "state": obs["state"]})
    batch = {name: np.stack([one[name] for one in dicts]) for name in dicts[0]}
    outputs = policy.forward(batch)
    check(outputs.tobytes() == policy.forward(np.stack(rows)).tobytes(), "rows of bytes have other outputs")
    check(policy.act(batch).tolist() == [int(policy.act(one)) for one in dicts], "a batch has other actions")
    envs = policy.make_vec(3, allow_plugins=True)
    obs, total = envs.reset(seed=0)[0], np.zeros(3)
    for _ in range(16):
        obs, reward, *_ = envs.step(policy.act(obs))
        total += reward
    check(obs["camera"].shape == (3, 3, 12, 10) and total.tolist() == [16] * 3, f"{total}")
    envs.close()
    for wrong, said in (({"camera": batch["camera"]}, "found ['camera']"), ({**batch, "state": batch["state"][:2]}, "different shapes"),
                        ({**batch, "camera": batch["camera"] / 255}, "is uint8"), ({**batch, "state": batch["state"] * np.nan}, "finite"),
                        (np.zeros(372, np.float32), "rows of bytes")):
        try:
            policy.act(wrong)
        except (ValueError, TypeError) as error:
            check(said in str(error), f"{error}")
        else:
            sys.exit(f"failed: taken: {said}")


MISTAKES = [
    ("obs: camera", "obs: camra", "inputs.yaml:21:20: obs: expected a part of the observation (camera, state), found camra"),
    ("      vector: {obs: state, layers: [{dense: 16}, tanh]}\n", "", "inputs.yaml:21:7: inputs: none reads the part state"),
    ("obs: state, ", "", "inputs.yaml:22:15: obs: expected a part of the observation (camera, state), found none"),
    ("state, layers", "state, layer", "inputs.yaml:22:28: expected an input's keys obs and layers, found layer"),
    (", flatten]", "]", "inputs.yaml:21:7: concat joins inputs of one dimension, which flatten makes of others; it gets [8, 5, 4]"),
    ("vector:", "vec.tor:", "inputs.yaml:22:7: inputs: the name vec.tor"),
    ("    inputs:", "    obs_shape: {camera: [3, 12, 9], state: 3}\n    inputs:", "shows {camera: [3, 12, 10], state: [3]}, found {camera: [3, 12, 9]"),
    ("    inputs:", "    obs_shape: {camera: [3, x, 9]}\n    inputs:", "inputs.yaml:20:29: policy.model.obs_shape: expected an integer"),
    (INPUTS, "    obs_shape: {camera: [3, 12, 10], state: 3}\n", "inputs.yaml:20:16: policy.model.obs_shape: a net without policy.model.inputs"),
    ("parts_env:Bars", "CartPole-v1", "inputs.yaml:21:7: inputs: each reads a part of the observation, but policy.model.obs_shape is one array, [4]"),
    ("n_sample: 512,", "n_sample: 512, normalize_obs: true,", "inputs.yaml:17:43: policy.collect.normalize_obs: observations of one array"),
    ("max_episode_steps: 50", "max_episode_steps: 50, obs_shape: 4, actions: 2", "env.options.obs_shape declares one array"),
]


def check_mistakes(scratch):
    for old, new, said in MISTAKES:
        text = HEAD + INPUTS + REST
        check(text.count(old) == 1, f"{old} stands {text.count(old)} times in the run file")
        told = call("run", write(scratch, "inputs.yaml", text.replace(old, new)), "--dir", scratch("wrong"), expect=2).stderr
        check(said in told, f"'{said}' is not in {told}")
    said = call("eval", scratch("whole"), "--obs", scratch("none"), expect=2).stderr
    check("several inputs" in said, said)


def main():
    check_parts()
    with Scratch() as scratch:
        config = write(scratch, "bars.yaml", HEAD + INPUTS + REST)
        check_runs(scratch, config)
        check_config(scratch, config)
        check_policy(scratch)
        check_other_algorithms(scratch, config)
        check_mistakes(scratch)


main()
