#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A graph that is changed by mistake is told. Each value and each step of every shipped graph is left out, neighbouring
steps are swapped, and so are two values of one type within a step. Each such mutant has to be refused, or warned about,
by one of the run files below, unless it is the same program or graph_mutants.json says why it is as good a graph.

test_graph_mutants.py [--show]
  --show  prints all mutants, with what is said of each"""

import collections
import fnmatch
import functools
import itertools
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, call, check, sets, train  # noqa: E402

GRAPHS = os.path.join(ROOT, "configs/graphs")
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "graph_mutants.json")
NORMALISED = dict(policy__collect__normalize_obs="true", policy__collect__normalize_reward="true")
KL = dict(policy__learn__lr_scheduler__type="kl")
LINEAR = dict(policy__learn__schedule__learning_rate="{type: linear, end: 0}", policy__learn__schedule__over="update",
              policy__learn__schedule__total=100)
CLIP = dict(policy__learn__schedule__clip_ratio="{type: linear, end: 0}", max_env_step=1000)
CLONED = dict(policy__collect__data_path="{data}")

# Run files by graph: together they have all values and run all steps. {data} is a data set.
RUNS = {
    "a2c": [("cartpole_a2c_ddp", dict(NORMALISED, **LINEAR))],
    "bc": [("cartpole_bc_ddp", dict(CLONED, **LINEAR))],
    "bc_norm": [("cartpole_bc_ddp", dict(CLONED, **LINEAR, policy__model__norm="sync_batch_norm"))],
    "dqn": [("cartpole_dqn_ddp", dict(NORMALISED, **LINEAR))],
    "dqn_concurrent": [("cartpole_dqn_ddp", dict(NORMALISED, **LINEAR))],
    "dqn_local": [("cartpole_dqn_ddp", dict(NORMALISED, **LINEAR, policy__learn__outer__momentum=momentum)) for momentum in (0, 0.9)],
    "dqn_priority": [("cartpole_dqn_priority", dict(NORMALISED, **LINEAR))],
    "dqn_sharded_evaluation": [("cartpole_dqn_ddp", dict(NORMALISED, **LINEAR))],
    "ppo": [("cartpole_ppo_ddp", dict(NORMALISED, **LINEAR, policy__recompute_adv=recompute, strategy__policy_lag=lag))
           for recompute, lag in (("true", 0), ("false", 0), ("false", 1))],
    "ppo_fast": [("cartpole_ppo_ddp", dict(NORMALISED, **KL, **CLIP, policy__recompute_adv=recompute, strategy__policy_lag=lag))
                for recompute, lag in (("true", 0), ("false", 0), ("false", 1))],
    "ppo_local": [("cartpole_ppo_ddp", dict(NORMALISED, **LINEAR, policy__recompute_adv=recompute, strategy__policy_lag=lag,
                                            policy__learn__outer__momentum=momentum))
                  for recompute, lag, momentum in (("true", 0, 0), ("false", 0, 0.9), ("false", 1, 0.9))],
    "ppo_nosync": [("cartpole_ppo_ddp", dict(**LINEAR, policy__recompute_adv=recompute)) for recompute in ("true", "false")],
    "vtrace": [("cartpole_vtrace_ddp", dict(NORMALISED, **LINEAR))],
    "sac": [("pendulum_sac", dict(NORMALISED, **LINEAR))],
}

# -- A graph file as lines ------------------------------------------------------------------------------

USES = re.compile(r"\b(reads|updates|writes): \[(.*?)\]")
VALUE = re.compile(r"  (\w+): +\{type: (\w+)(.*)\}")


def get_indent(line):
    return len(line) - len(line.lstrip())


def list_blocks(lines, start, end):
    """(first line, line behind the last) of each step from `start` to `end`, repeats before what they repeat, in lists
    of neighbours."""
    blocks, inner, at = [], [], start
    while at < end:
        if not lines[at].lstrip().startswith("- "):
            at += 1
            continue
        behind = at + 1
        while behind < end and get_indent(lines[behind]) > get_indent(lines[at]):
            behind += 1
        blocks.append((at, behind))
        if behind > at + 1:
            inner += list_blocks(lines, at + 1, behind)
        at = behind
    return [blocks, *inner]


def name_step(line):
    """A step by its verb and the first and last value that it uses: "mean(grad, mean_grad)"."""
    verb, rest = re.match(r" *- (\w+): *(.*)", line).groups()
    if verb == "repeat":
        return "repeat " + rest.partition("#")[0].strip()
    when = re.search(r"\bwhen: ([^,}]*)", rest)
    names = [re.sub(r"@.*", "", name) for _, uses in USES.findall(rest) for name in uses.split(", ")]
    ends = dict.fromkeys(names[:1] + names[-1:])
    return f"{verb}({', '.join(ends)})" + (f" when {when[1]}" if when else "")


@functools.lru_cache
def list_ports(verb):
    return re.findall(r"^ +(?:reads|updates|writes) +(\w+) \(", call("verbs", verb).stdout, re.M)


def exchange(line, one, other, ports):
    """A step's line with two values exchanged: each at the other's port, which is named if it has its value's name."""
    def rename(found):
        port, name, lag = found.groups()
        if name not in (one, other):
            return found[0]
        return (port or (f"{name}: " if name in ports else "")) + (other if name == one else one) + lag

    return USES.sub(lambda uses: f"{uses[1]}: [" + re.sub(r"(\w+: )?\b(\w+)(|@[^,]*)(?=,|$)", rename, uses[2]) + "]", line)


def read_uses(lines):
    """(names that steps use, names that they change), counters with them."""
    used, changed = set(), set()
    for line in lines:
        code = line.partition("#")[0]
        for mode, names in USES.findall(code):
            names = {re.sub(r"@.*", "", name).rpartition(" ")[2] for name in names.split(", ")}
            used |= names
            changed |= names if mode != "reads" else set()
        changed |= set(re.findall(r"counts: (\w+)", code))
        used |= set(re.findall(r"[a-z_]\w*", " ".join(re.findall(r"(?:when|every|if): ([^,}]*)", code))))
    return used | changed, changed


def commute(one, other):
    """Whether two steps mean the same in both orders: neither changes what the other uses, and neither stops the run."""
    (used, changed), (used_by_other, changed_by_other) = read_uses(one), read_uses(other)
    stops = any(re.match(r" *- stop:", line) for line in one + other)
    return not stops and not changed & used_by_other and not changed_by_other & used


def list_mutants(text):
    """{name: the text of the mutant, or None where it is the same program}."""
    lines = text.rstrip("\n").split("\n")
    begin = lines.index("iteration:")
    values = {}
    mutants = {}

    def add(name, changed):
        check(name not in mutants, f"two mutants are called {name}")
        mutants[name] = "\n".join(changed) + "\n" if changed else None

    def add_lines_of_repeat(name, start, end):
        body = next(i for i in range(start + 1, end) if lines[i].lstrip().startswith("- "))
        for i in range(start, body):
            add(f"without the line of {name}: {lines[i].strip()}", lines[:i] + lines[i + 1:])

    for number, line in enumerate(lines):
        if found := re.match(r"\w+:", line):
            add(f"without {found[0]}", lines[:number] + lines[number + 1:])
    for number, line in enumerate(lines[:begin]):
        if found := VALUE.match(line):
            values[found[1]] = (found[2], "per: shard" in line, "rank0" in line)
            add(f"without value {found[1]}", lines[:number] + lines[number + 1:])
    for blocks in list_blocks(lines, begin + 1, len(lines)):
        for start, end in blocks:
            name = name_step(lines[start])
            add(f"without {name}", lines[:start] + lines[end:])
            verb = name.partition("(")[0]
            if end > start + 1:
                add_lines_of_repeat(name, start, end)
            if verb in ("mean", "sum"):
                other = "sum" if verb == "mean" else "mean"
                add(f"{other} in place of {name}", lines[:start] + [lines[start].replace(f"- {verb}:", f"- {other}:")] + lines[end:])
            if end > start + 1 or verb in ("log", "stop"):  # which take values in any order
                continue
            uses = sorted(read_uses([lines[start]])[0] & set(values), key=list(values).index)
            for one, other in itertools.combinations(uses, 2):
                if values[one] == values[other]:
                    add(f"{name} with {one} and {other} exchanged",
                        lines[:start] + [exchange(lines[start], one, other, list_ports(verb))] + lines[end:])
        for (start, middle), (_, end) in itertools.pairwise(blocks):
            one, other = lines[start:middle], lines[middle:end]
            add(f"{name_step(other[0])} before {name_step(one[0])}",
                None if commute(one, other) else lines[:start] + other + one + lines[end:])
    return mutants


# -- What is said of a mutant -----------------------------------------------------------------------------

def judge(scratch, graph, number, text):
    """"refused", "warned", or "accepted", with the first line of what was said."""
    said = "accepted", ""
    for config, keys in RUNS[graph]:
        path = scratch(f"{graph}_{number}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        keys = {key: str(value).replace("{data}", scratch("data")) for key, value in keys.items()}
        done = call("graph", os.path.join(ROOT, f"configs/{config}.yaml"), *sets(graph=path, max_train_iter=100000, **keys), expect=None)
        check(done.returncode in (0, 2), f"{graph} {number}: exit code {done.returncode}\n{done.stderr}")
        lines = [line for line in done.stderr.split("\n") if line.startswith(("error: ", "warning: "))]
        check(done.returncode == 0 or lines, f"{graph} {number}: refused without a word")
        if lines:
            said = "refused" if done.returncode else "warned", lines[0].replace(path, graph + ".yaml")
        if done.returncode:
            break
    return said


def judge_numbered(scratch, mutants, number):
    (graph, _), text = list(mutants.items())[number]
    return judge(scratch, graph, number, text) if text else ("equal", "")


def check_shipped(scratch):
    """Nothing is said of the run files as they are, with any strategy, but that some algorithm has no use for a part of it."""
    def check_one(config, strategy):
        keys = sets(policy__collect__data_path=scratch("data")) if "_bc_" in config else []
        done = call("graph", config, "--strategy", strategy, *keys)
        said = [line for line in done.stderr.splitlines() if not re.search(r": strategy\.\w+ is not used by this run of \w+$", line)]
        check(not said, f"{config} with {strategy}: {done.stderr}")

    folder = os.path.join(ROOT, "configs")
    configs = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".yaml")]
    strategies = [name.removesuffix(".yaml") for name in sorted(os.listdir(os.path.join(folder, "strategies")))]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: check_one(*pair), itertools.product(configs, strategies)))


def make_data(scratch):
    train(scratch("first"), max_train_iter=1)
    call("record", os.path.join(ROOT, "configs/cartpole_dqn_ddp.yaml"), "--weights", scratch("first/ckpt/best/policy.safetensors"),
         "--transitions", "1000", "--out", scratch("data"), "--quiet")


def read_reviewed(mutants):
    """{(graph, mutant): reason}, of an entry's pattern, which stands for one mutant of each of its graphs."""
    reviewed = {}
    with open(DATA, encoding="utf-8") as file:
        for entry in json.load(file):
            for graph in entry["graphs"]:
                found = [mutant for mutant in mutants if mutant[0] == graph and fnmatch.fnmatchcase(mutant[1], entry["mutant"])]
                check(len(found) == 1, f"{DATA}: {entry['mutant']} stands for {found} of {graph}")
                check(found[0] not in reviewed, f"{DATA}: {found[0]} is there twice")
                reviewed[found[0]] = entry["reason"]
    return reviewed


def main():
    graphs = {}
    for file in sorted(os.listdir(GRAPHS)):
        with open(os.path.join(GRAPHS, file), encoding="utf-8") as opened:
            graphs[file.removesuffix(".yaml")] = opened.read()
    check(graphs.keys() == RUNS.keys(), f"{set(graphs) ^ set(RUNS)}: a graph without run files, or run files without a graph")
    mutants = {(graph, name): text for graph in graphs for name, text in list_mutants(graphs[graph]).items()}
    reviewed = read_reviewed(mutants)
    with Scratch() as scratch:
        make_data(scratch)
        check_shipped(scratch)
        for graph, text in graphs.items():
            verdict = judge(scratch, graph, "as_it_is", text)
            check(verdict == ("accepted", ""), f"{graph} as it is: {verdict}")
        with ThreadPoolExecutor(2) as pool:
            verdicts = dict(zip(mutants, pool.map(lambda n: judge_numbered(scratch, mutants, n), range(len(mutants)))))
    for (graph, name), (verdict, said) in verdicts.items() if "--show" in sys.argv else ():
        print(f"{verdict}: {graph}: {name}: {said or reviewed.get((graph, name), '')}")
    accepted = {mutant for mutant, (verdict, _) in verdicts.items() if verdict == "accepted"}
    counts = collections.Counter(verdict for verdict, _ in verdicts.values())
    print(f"{len(mutants)} mutants: {counts['refused']} refused, {counts['warned']} warned about, {counts['equal']} the same program, "
          f"{len(accepted & reviewed.keys())} reviewed")
    check(accepted <= reviewed.keys(), f"accepted without a word, and not in {DATA}: {sorted(accepted - reviewed.keys())}")
    check(reviewed.keys() <= accepted, f"{DATA} has what is told: {sorted(reviewed.keys() - accepted)}")


if __name__ == "__main__":
    main()
