# SPDX-License-Identifier: Apache-2.0
"""`runner keys --json-schema`, by the package jsonschema: it is a schema, takes the shipped run files and what a run
writes, has every key of `runner keys`, and refuses what the program refuses: unknown keys, wrong kinds, and numbers
beyond their range."""

import copy
import glob
import json
import os
import re
import sys

import jsonschema
import ruamel.yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, sets, train  # noqa: E402

SCHEMA = json.loads(call("keys", "--json-schema").stdout)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
YAML = ruamel.yaml.YAML(typ="safe", pure=True)  # version 1.2, as editors read it

# What is written in place of a key of CONFIG, and whether that is a mistake.
VALUES = {
    "seed": {"-1": True, "1.5": True, "abc": True, "1e3": False},
    "exp_name": {"[a]": True, "1": False},
    "graph": {"{values: {}, steps: []}": None},
    "world.shards": {"auto": False, "all": True, "0": True, "4097": True, "2": False},
    "policy.discount_factor": {"1.5": True, "high": True, "1": False},
    "policy.cuda": {"maybe": True, "auto": False, "false": False},
    "policy.type": {"dqm": True, "[dqn]": True},
    "policy.priority": {"1": True, "both": True, "false": False},
    "policy.model.encoder_hidden_size_list": {"[]": True, "[64, wide]": True, "64": False, "{a: 1}": True},
    "policy.model.obs_shape": {"auto": False, "{}": True, "[0]": True, "4": False},
    "policy.learn": {"3": True, "[batch_size]": True},
    "policy.lern": {"{batch_size: 64}": True},
    "policy.learn.lr": {"0.001": True},
    "env.options": {"3": True, "{}": False},
}


def put(tree, path, value):
    *sections, name = path.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
    tree[name] = value


def read(path):
    with open(path, encoding="utf-8") as file:
        return YAML.load(file)


def list_leaves(schema, path=""):
    """{path of a key: its schema}"""
    found = {}
    for name, inner in schema["properties"].items():
        found.update(list_leaves(inner, f"{path}{name}.") if "properties" in inner else {path + name: inner})
    return found


def check_keys():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    leaves = list_leaves(SCHEMA)
    paths = re.findall(r"^([a-zA-Z][\w.]+): ", call("keys").stdout, re.M)
    check(len(paths) > 100 and sorted(leaves) == sorted(paths), f"other keys: {set(leaves) ^ set(paths)}")
    check(SCHEMA["required"] == ["graph"], SCHEMA["required"])
    for path, leaf in leaves.items():
        check(leaf["description"], f"{path} has no description")
        if "default" in leaf:
            jsonschema.validate(leaf["default"], leaf)


def check_files():
    paths = sorted(glob.glob(os.path.join(ROOT, "configs/*.yaml")) + glob.glob(os.path.join(ROOT, "configs/presets/*.yaml")))
    check(len(paths) > 20, f"only {paths}")
    for path in paths:
        mistakes = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(read(path))]
        check(not mistakes, f"{path}: {mistakes}")
    with Scratch() as scratch:
        train(scratch("run"), max_train_iter=1)
        VALIDATOR.validate(read(scratch("run/total_config.yaml")))


def check_mistakes():
    for path, values in VALUES.items():
        for value, is_mistake in values.items():
            tree = copy.deepcopy(read(CONFIG))
            put(tree, path, YAML.load(value))
            refused = not VALIDATOR.is_valid(tree)
            check(refused == bool(is_mistake), f"{path}: {value} is {'refused' if refused else 'taken'}")
            if is_mistake is not None:
                said = call("graph", CONFIG, *sets(**{path: value}), expect=None).stderr
                check((path.split(".")[-1] in said and "rror" in said) == is_mistake, f"the program says of {path}: {said}")
    tree = read(CONFIG)
    del tree["graph"]
    check(not VALIDATOR.is_valid(tree), "a run file without a graph is taken")


def main():
    check_keys()
    check_files()
    check_mistakes()
    said = call("keys", "policy", "--json-schema", expect=2).stderr
    check("leave 'policy' out" in said, said)


if __name__ == "__main__":
    main()
