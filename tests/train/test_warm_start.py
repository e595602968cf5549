#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of docs/howto/warm_start.md, small: a policy is cloned and PPO goes on with its weights (--weights, `init:`).
Each tensor is taken by its name or told why not, on any ranks; a run that goes on does not read the file again; frozen
tensors keep their bits (policy.learn.freeze); and what cannot be taken is told at its place."""

import glob
import json
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, RUNNER, SECRET, Scratch, call, check, environment, free_port, sets, train  # noqa: E402

BC, PPO = (os.path.join(ROOT, f"configs/cartpole_{name}_ddp.yaml") for name in ("bc", "ppo"))
NET = dict(env__stop_value="1e9", policy__model__layers="[{dense: 16}, relu, {dense: 16}, relu]")
POLICY = "policy: {type: categorical}"
LEARN = dict(NET, config=PPO, max_train_iter=24, world__shards=2, policy__collect__n_sample=64,
             policy__model__heads=f"{{{POLICY}, value: {{type: dense}}}}", policy__learn__batch_size=32,
             policy__model__actor_head_hidden_size=0, policy__model__critic_head_hidden_size=0)
TAKEN = ["layers.0.weight [16, 4]", "layers.0.bias [16]", "layers.2.weight [16, 16]", "layers.2.bias [16]",
         "heads.policy.weight [2, 16]", "heads.policy.bias [2]"]


def run(directory, *arguments, expect=0, **keys):
    """What a run says."""
    keys = {**LEARN, **keys}
    return call("run", keys.pop("config"), "--dir", directory, *sets(**keys), *arguments, expect=expect).stderr


def find_weights(directory):
    """The last weights of a run."""
    (path,) = glob.glob(os.path.join(directory, "ckpt/iteration_*/policy.safetensors"))
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_tensors(path):
    """{name: bytes} of a file, or of the last weights of a run."""
    data = read(find_weights(path) if os.path.isdir(path) else path)
    (length,) = struct.unpack("<Q", data[:8])
    tensors = json.loads(data[8:8 + length])
    return {name: data[8 + length + tensor["data_offsets"][0]:8 + length + tensor["data_offsets"][1]]
            for name, tensor in tensors.items() if name != "__metadata__"}


def clone(scratch):
    """A policy that imitates another one. Returns its weights."""
    train(scratch("teacher"), max_train_iter=20)
    call("record", CONFIG, "--weights", scratch("teacher/ckpt/iteration_20/policy.safetensors"), "--transitions", "301",
         "--out", scratch("demos"), "--quiet")
    train(scratch("cloned"), config=BC, **NET, policy__collect__data_path=scratch("demos"), max_train_iter=40,
          policy__model__heads=f"{{{POLICY}}}")
    return scratch("cloned/ckpt/iteration_40/policy.safetensors")


def check_table(scratch, weights):
    said = run(scratch("begun"), "--weights", weights)
    lines = [f"  taken    {tensor}" for tensor in TAKEN] + [
        f"  drawn    heads.value.{tensor}: the file has no such tensor" for tensor in ("weight [1, 16]", "bias [1]")]
    check("\n".join(lines) in said, said)
    file_hash = re.search(r"begins with \S+ \(hash (\w{16})\)", said)[1]
    paths = [scratch("begun/total_config.yaml"), *glob.glob(scratch("begun/ckpt/state/*/manifest.json"))]
    check(len(paths) > 1, "there is no checkpoint")
    for path in paths:
        with open(path, encoding="utf-8") as file:
            check(f"init: {{file: {weights}, hash: {file_hash}}}" in file.read(), f"{path} does not name the weights")
    said = run(scratch("smaller"), "--weights", weights, "--skip-mismatch", max_train_iter=1,
               policy__model__layers="[{dense: 16}, relu, {dense: 8}, relu]")
    check("taken    layers.0.weight" in said and "drawn    layers.2.weight [8, 16]: [16, 16] in the file" in said, said)


def check_begin(scratch, weights):
    """What a run begins with is in the file, to the bit; the rest is as without one."""
    begin = dict(LEARN, max_train_iter=1, policy__learn__learning_rate=0)
    train(scratch("first"), "--weights", weights, **begin)
    train(scratch("drawn"), **begin)
    first, drawn = (read_tensors(scratch(name)) for name in ("first", "drawn"))
    stored = read_tensors(weights)
    for name, data in first.items():
        check(data == stored.get(name, drawn[name]), f"{name} is neither that of the file nor as it is drawn")


def check_bits(scratch, weights):
    """Ranks, a graph that names the file, and a run that goes on without it, end alike."""
    hashes = [train(scratch(f"ranks {ranks}"), "--weights", weights, ranks=ranks, **LEARN)["param_hash"] for ranks in (1, 2)]
    with open(os.path.join(ROOT, "configs/graphs/ppo.yaml"), encoding="utf-8") as file:
        graph = file.read().replace("policy:        {type: params,", f"policy:        {{type: params, init: {{file: {weights}}},")
    with open(scratch("graph.yaml"), "w", encoding="utf-8") as file:
        file.write(graph)
    hashes.append(train(scratch("graph"), **LEARN, graph=scratch("graph.yaml"))["param_hash"])
    train(scratch("half"), "--weights", weights, **dict(LEARN, max_train_iter=8))
    os.rename(weights, weights + "_")
    hashes.append(train(scratch("half"), "--weights", weights, "--resume", **LEARN)["param_hash"])
    check("graph.values.policy.init.file: " in run(scratch("half"), "--resume", expect=2), "a resume without weights")
    os.rename(weights + "_", weights)
    check(len(set(hashes)) == 1, f"the same weights end in {hashes}")
    check(hashes[0] != train(scratch("none"), **LEARN)["param_hash"], "weights have no effect")
    total = scratch("half/total_config.yaml")
    with open(weights, "ab") as file:
        file.write(b" ")
    said = call("run", total, "--dir", scratch("changed"), expect=2).stderr
    check(re.search(r"total_config.yaml:\d+:\d+: \S+ is another file than that of `hash: \w+`", said), said)


def check_other_files(scratch, weights):
    """Two hosts, here folders, with files of the same name and other content."""
    port, runs = str(free_port()), []
    for node, file in enumerate((weights, scratch("begun"))):
        os.mkdir(scratch(f"node {node}"))
        with open(scratch(f"node {node}/weights.safetensors"), "wb") as there:
            there.write(read(file if node == 0 else find_weights(file)))
        command = [RUNNER, "launch", "--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1",
                   "--master-port", port, PPO, "--dir", "run", "--weights", "weights.safetensors",
                   *sets(**{key: value for key, value in LEARN.items() if key != "config"})]
        runs.append(subprocess.Popen(command, cwd=scratch(f"node {node}"), env=environment(HEDDLE_SECRET=SECRET), text=True,
                                     stderr=subprocess.PIPE))
    said = "".join(run.communicate()[1] for run in runs)
    check(re.search(r"the file of weights of 'policy' is \w{16} on rank 1 .*, but \w{16} on rank 0", said), said)


def check_frozen(scratch, weights):
    """The gradient's norm is that of what learns, which the first update shows."""
    train(scratch("frozen"), "--weights", weights, **LEARN, policy__learn__freeze="[layers, heads.policy.bias]")
    found, stored = read_tensors(scratch("frozen")), read_tensors(weights)
    kept = {name for name, data in found.items() if data == stored.get(name)}
    check(kept == {name.split()[0] for name in TAKEN} - {"heads.policy.weight"}, f"kept: {kept}")


def check_mistakes(scratch, weights):
    with open(scratch("short.safetensors"), "wb") as file:
        file.write(b"1234")
    mistakes = [
        (["--weights", scratch("none.safetensors")], {}, "error: --weights: "),
        (["--weights", scratch("short.safetensors")], {}, "short.safetensors"),
        (["--weights", scratch("teacher/ckpt/iteration_20/policy.safetensors")], {}, "nothing would be taken"),
        (["--weights", weights], {"policy__model__layers": "[{dense: 8}, relu]"},
         "tensor layers.0.weight is [16, 4] in the file and [8, 4] in the net of 'policy'; mismatch: skip"),
        ([], {"policy__learn__freeze": "[layer]"}, "policy.learn.freeze: the net has no tensor or module 'layer'"),
        ([], {"policy__learn__freeze": "layers"}, "expected a list of names"),
        ([], {"policy__learn__freeze": "[layers, heads]"}, "nothing of the net would learn"),
        ([], {"policy__learn__freeze": "[layers]", "policy__learn__adam_eps": 0}, "would make frozen tensors NaN"),
    ]
    for init, expected in (("{mismatch: skip}", "expected the name of a value, or {file: FILE}"),
                           ("{file: a, mismatch: no}", "mismatch: expected error or skip, found no"),
                           ("{file: a, shape: b}", "found 'shape'")):
        mistakes.append(([], {"graph": f"{{values: {{policy: {{type: params, init: {init}}}}}, iteration: []}}", "strategy": "{}"}, expected))
    mistakes.append(([], {"graph": "{values: {totals: {type: env_counters, init: {file: a}}}, iteration: []}", "strategy": "{}"},
                     "init: a value of type env_counters does not begin with a file"))
    for arguments, keys, expected in mistakes:
        said = run(scratch("refused"), *arguments, expect=2, **keys)
        check(expected in said, f"{arguments} {keys}: {said}")
        check(not os.path.exists(scratch("refused")), f"{arguments} {keys}: something was left")


def main():
    with Scratch() as scratch:
        weights = clone(scratch)
        check_table(scratch, weights)
        check_begin(scratch, weights)
        check_other_files(scratch, weights)
        check_frozen(scratch, weights)
        check_mistakes(scratch, weights)
        check_bits(scratch, weights)


main()
