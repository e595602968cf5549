#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training updates of behaviour cloning, DQN, PPO, A2C, V-trace and SAC against PyTorch in double, over shards and ranks:
the weights after several updates, from the weights that a run began with. All else is had from outside of the program:
data sets are written here, and an environment of the tests' own (ledger.c) keeps a book of what it shows and is given.
What torch_updates.py makes of these has to be the program's weights to the rounding of single precision; and with one
setting changed, or a mistake in the mean of shards, it has to be others.

test_updates.py [WORD]: only cases whose names have this word."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import ROOT, Scratch, check, environment, skip, train  # noqa: E402
from pytorch.torch_ranks import find_python, run_ranks  # noqa: E402

try:
    import numpy as np
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")

# Of each update: parameters are below 1 here, so that single precision rounds them by up to 2^-25, and what moves them,
# at most a tenth, may be off by as much.
ROUNDING = 2.0**-24
OBS, CHOICES, SEED = 3, 3, 11
LAYERS = {"relu": ["dense", "relu", "dense", "relu"], "tanh": ["dense", "tanh"], "gru": ["dense", "tanh", "gru"]}
WIDTHS = {"relu": [14, 10], "tanh": [12], "gru": [8, 6]}

# Where a key of a case stands in a run file.
PLACES = {
    "policy": "nstep nstep_tail discount_factor recompute_adv random_collect_size action_space",
    "policy.learn": "batch_size microbatch accumulate learning_rate learning_rate_q learning_rate_alpha adam_eps alpha "
                    "auto_alpha target_entropy_per_dim target_theta target_update_freq update_per_collect "
                    "epoch_per_collect value_weight entropy_weight clip_ratio value_clip adv_norm value_norm "
                    "minibatch_tail grad_clip_value rho_clip_ratio c_clip_ratio",
    "policy.learn.sampler": "tail shuffle",
    "policy.collect": "n_sample unroll_len gae_lambda segment_at_done truncation",
    "policy.other.replay_buffer": "replay_buffer_size",
    "policy.model": "dueling",
    "strategy": "local_updates policy_lag",
    "env": "collector_env_num",
}
PLACE = {key: f"{folder}.{key}" for folder, keys in PLACES.items() for key in keys.split()}
PLACE.update(outer_rate="policy.learn.outer.learning_rate", outer_momentum="policy.learn.outer.momentum")

# What the cases of an algorithm have in common. Adam's epsilon is so large that steps show how long gradients are.
ADAM = dict(learning_rate=0.02, adam_eps=0.05, accumulate=1)
OFF_POLICY = dict(ADAM, nstep=1, nstep_tail="di_engine", discount_factor=0.9, collector_env_num=4, update_per_collect=2)
ON_POLICY = dict(ADAM, discount_factor=0.9, gae_lambda=0.8, value_weight=0.5, entropy_weight=0.02, unroll_len=0,
                 segment_at_done=True, collector_env_num=4, n_sample=32, batch_size=32, minibatch_tail="overlap",
                 grad_clip_value=0.5)
BASES = {
    "bc": dict(ADAM, tail="pad", shuffle=False),
    "dqn": dict(OFF_POLICY, n_sample=8, batch_size=16, replay_buffer_size=16, target_update_freq=3, dueling=True),
    "sac": dict(OFF_POLICY, n_sample=6, batch_size=16, replay_buffer_size=16, collector_env_num=3, action_space="continuous",
                learning_rate_q=0.02, learning_rate_alpha=0.05, alpha=0.5, auto_alpha=True, target_entropy_per_dim=-1,
                target_theta=0.1, random_collect_size=0, truncation="auto"),
    "ppo": dict(ON_POLICY, epoch_per_collect=2, recompute_adv=True, clip_ratio=0.2, value_clip=True, adv_norm=True,
                value_norm=True),
    "a2c": dict(ON_POLICY, adv_norm=False),
    "vtrace": dict(ON_POLICY, adv_norm=False, gae_lambda=1, policy_lag=1, rho_clip_ratio=1, c_clip_ratio=1),
}
FILES = {"bc": "cartpole_bc_ddp", "dqn": "cartpole_dqn_ddp", "sac": "pendulum_sac", "ppo": "cartpole_ppo_ddp",
         "a2c": "cartpole_a2c_ddp", "vtrace": "cartpole_vtrace_ddp"}
AVERAGE, DILOCO = dict(outer_rate=1, outer_momentum=0), dict(outer_rate=0.7, outer_momentum=0.9)
# Of A2C and V-trace the program has no such keys.
ONCE = dict(epoch_per_collect=1, recompute_adv=False, value_norm=False, clip_ratio=0, value_clip=False)
IMPLIED = {"a2c": ONCE, "vtrace": ONCE}


def case(kind, shards, updates, ranks=1, layers=None, rows=0, unlike=None, **keys):
    """A comparison; `unlike` are settings with which PyTorch has to come to other weights."""
    unlike = {**({"mean": "first" if "local_updates" in keys else "sum"} if shards > 1 else {}), **(unlike or {})}
    given = " ".join(f"{key} {value}" for key, value in keys.items())
    name = f"{kind} {given}".strip() + (f" {layers}" if layers else "") + (f" of {rows}" if rows else "")
    return dict(kind=kind, shards=shards, updates=updates, ranks=ranks, layers=layers, rows=rows, unlike=unlike,
                keys={**BASES[kind], **keys}, name=name)


CASES = [
    case("bc", 1, 10, rows=40, batch_size=16),
    case("bc", 2, 10, rows=40, batch_size=16),
    case("bc", 4, 10, rows=40, batch_size=16, ranks=2),
    case("bc", 2, 9, rows=41, batch_size=8, unlike=dict(tail="drop_last")),
    case("bc", 4, 9, rows=41, batch_size=4, tail="uneven", ranks=2, unlike=dict(tail="pad")),
    case("bc", 4, 9, rows=43, batch_size=4, tail="drop_last", unlike=dict(tail="pad")),
    case("bc", 4, 5, rows=3, batch_size=2, tail="uneven", unlike=dict(tail="pad")),
    case("bc", 2, 6, rows=60, batch_size=8, accumulate=3, microbatch=4, unlike=dict(accumulate=1)),
    case("bc", 4, 6, rows=44, batch_size=11, shuffle=True),
    case("bc", 1, 20, rows=40, batch_size=16, adam_eps=1e-3, unlike=dict(adam_eps=0.05)),
    case("bc", 2, 20, rows=40, batch_size=16, adam_eps=1e-8, learning_rate=1e-3, unlike=dict(adam_eps=1e-3)),

    case("dqn", 1, 8, unlike=dict(double=False, target_update_freq=4)),
    case("dqn", 2, 8, ranks=2, unlike=dict(discount_factor=0.91)),
    case("dqn", 1, 8, nstep=3, n_sample=16, unlike=dict(nstep_tail="corrected", nstep=1)),
    case("dqn", 2, 8, nstep=3, n_sample=16, nstep_tail="corrected", unlike=dict(nstep_tail="di_engine")),
    case("dqn", 2, 8, nstep=3, n_sample=11, unlike=dict(nstep=2)),
    case("dqn", 1, 8, n_sample=7, dueling=False, unlike=dict(double=False)),
    case("dqn", 2, 8, n_sample=7, batch_size=8, replay_buffer_size=40, ranks=2, unlike=dict(draws=12)),
    case("dqn", 4, 8, n_sample=13, nstep=2, batch_size=8, accumulate=2, microbatch=4, target_update_freq=1,
         unlike=dict(target_update_freq=2)),
    case("dqn", 2, 9, update_per_collect=3, layers="tanh", adam_eps=1e-3, unlike=dict(adam_eps=0.05)),
    case("dqn", 2, 8, adam_eps=1e-8, learning_rate=1e-3, unlike=dict(adam_eps=1e-3)),

    case("ppo", 1, 6, unlike=dict(recompute_adv=False, value_norm=False)),
    case("ppo", 2, 6, unlike=dict(pooled=1, adv_norm=False)),
    case("ppo", 4, 6, ranks=2, unlike=dict(pooled=1, gae_lambda=0.81)),
    case("ppo", 1, 6, recompute_adv=False, unlike=dict(recompute_adv=True)),
    case("ppo", 2, 9, recompute_adv=False, epoch_per_collect=3, clip_ratio=0.05, ranks=2,
         unlike=dict(pooled=1, value_clip=False)),
    case("ppo", 2, 6, adv_norm=False, value_norm=False, unlike=dict(adv_norm=True)),
    case("ppo", 2, 8, epoch_per_collect=4, clip_ratio=0.05, adam_eps=0.01, unlike=dict(clip_ratio=0.06)),
    case("ppo", 2, 6, segment_at_done=False, gae_lambda=0.95, unlike=dict(gae_lambda=0.8)),
    case("ppo", 1, 16, n_sample=30, batch_size=8, unlike=dict(minibatch_tail="short", draws=12)),
    case("ppo", 2, 16, n_sample=30, batch_size=8, minibatch_tail="short", ranks=2, unlike=dict(minibatch_tail="overlap")),
    case("ppo", 4, 8, batch_size=8, accumulate=2, value_clip=False, clip_ratio=0.05, adam_eps=0.01,
         unlike=dict(draws=12, value_clip=True)),
    case("ppo", 2, 6, grad_clip_value=0.05, unlike=dict(mean="first", grad_clip_value=0.06)),
    case("ppo", 2, 6, action_space="continuous", unlike=dict(mean="first", entropy_weight=0.03)),
    case("ppo", 2, 6, layers="tanh", adam_eps=1e-3, unlike=dict(value_weight=0.4)),
    case("ppo", 2, 6, adam_eps=1e-8, learning_rate=1e-3, unlike=dict(value_weight=0.4)),

    case("ppo", 1, 6, layers="gru", segment_at_done=False, unroll_len=8, unlike=dict(value_weight=0.4)),
    case("ppo", 2, 12, layers="gru", segment_at_done=False, unroll_len=4, batch_size=16, ranks=2, unlike=dict(draws=12)),
    case("ppo", 2, 6, layers="gru", segment_at_done=False, unroll_len=4, recompute_adv=False,
         unlike=dict(recompute_adv=True)),
    case("a2c", 2, 6, layers="gru", segment_at_done=False, unroll_len=8),

    case("a2c", 1, 6, unlike=dict(gae_lambda=0.9)),
    case("a2c", 2, 8, batch_size=16, ranks=2, unlike=dict(draws=12)),
    case("a2c", 2, 6, adv_norm=True, unlike=dict(adv_norm=False)),
    case("a2c", 2, 9, n_sample=33, batch_size=16, minibatch_tail="short", adv_norm=True, unlike=dict(draws=12)),
    case("a2c", 4, 6, segment_at_done=False, value_weight=0.25, unlike=dict(value_weight=0.5)),

    case("vtrace", 1, 8, unlike=dict(policy_lag=0, rho_clip_ratio=0.9)),
    case("vtrace", 2, 12, batch_size=16, ranks=2, policy_lag=2, unlike=dict(policy_lag=1, c_clip_ratio=0.9)),
    case("vtrace", 4, 8, gae_lambda=0.8, rho_clip_ratio=1.1, c_clip_ratio=0.95, policy_lag=3, unlike=dict(rho_clip_ratio=1, gae_lambda=1)),
    case("vtrace", 2, 8, segment_at_done=False, adv_norm=True, unlike=dict(policy_lag=0)),
    case("vtrace", 2, 8, layers="gru", segment_at_done=False, unroll_len=4, unlike=dict(policy_lag=0)),

    case("dqn", 2, 8, local_updates=2, ranks=2, **AVERAGE, unlike=dict(local_updates=4, outer_rate=0.9)),
    case("dqn", 4, 12, local_updates=3, batch_size=8, **DILOCO, unlike=dict(outer_rate=1, outer_momentum=0.8, heavy=True)),
    case("dqn", 2, 8, local_updates=2, target_update_freq=2, **DILOCO, unlike=dict(target_update_freq=3)),
    case("ppo", 2, 8, local_updates=1, **AVERAGE, unlike=dict(pooled=1, local_updates=2)),
    case("ppo", 4, 16, local_updates=4, batch_size=16, ranks=2, **DILOCO, unlike=dict(local_updates=2, outer_momentum=0)),
    case("ppo", 2, 12, local_updates=3, recompute_adv=False, epoch_per_collect=3, **DILOCO, unlike=dict(heavy=True)),

    case("sac", 1, 8, unlike=dict(critics=1, auto_alpha=False, truncation="terminal")),
    case("sac", 2, 8, ranks=2, unlike=dict(critics=1, target_theta=0.2)),
    case("sac", 2, 8, batch_size=8, replay_buffer_size=40, random_collect_size=20, unlike=dict(draws=12)),
    case("sac", 2, 8, auto_alpha=False, truncation="terminal", unlike=dict(auto_alpha=True, truncation="auto")),
    case("sac", 1, 8, nstep=3, nstep_tail="corrected", n_sample=12, target_entropy_per_dim=-2,
         unlike=dict(target_entropy_per_dim=-1, nstep_tail="di_engine")),
]


def build(scratch):
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}", "-o", scratch("heddle_env_ledger.so"),
                    os.path.join(ROOT, "tests/interop/ledger.c")], check=True)
    # SAC's critics are saved as well, as they are at first and at the end.
    with open(os.path.join(ROOT, "configs/graphs/sac.yaml"), encoding="utf-8") as file:
        head, _, tail = file.read().partition("iteration:\n")
    body, stop, limit = tail.rpartition("  - stop:")
    saves = "".join("  - save: {every: 1000000000 update, first: 0, reads: [%s], as: first_%s}\n" % (net, net)
                    for net in ("critic1", "critic2"))
    with open(scratch("sac.yaml"), "w", encoding="utf-8") as file:
        file.write(head + "iteration:\n" + saves + body + saves.replace("every: 1000000000 update, first: 0, ", "")
                   .replace("first_", "") + stop + limit)


def describe_layers(layers):
    widths = iter(WIDTHS[layers])
    return [layer if layer in ("relu", "tanh") else {layer: next(widths)} for layer in LAYERS[layers]]


def list_keys(scratch, one, folder):
    """What a run is given."""
    kind, keys = one["kind"], {PLACE[key]: value for key, value in one["keys"].items()}
    if kind in ("ppo", "a2c", "vtrace"):  # DI-engine has two keys of one name
        keys["policy.collect.discount_factor"] = keys.pop("policy.discount_factor")
    if "local_updates" in one["keys"]:
        keys["graph"] = os.path.join(ROOT, f"configs/graphs/{kind}_local.yaml")
    reals = one["keys"].get("action_space") == "continuous"
    log = {} if kind == "bc" else {"collector": {"log": folder}}
    keys.update({"world.shards": one["shards"], "seed": SEED, "max_train_iter": one["updates"], "env.type": "ledger",
                 "env.options": json.dumps({**({"reals": "true"} if reals else {}), **log}), "env.stop_value": 1e9,
                 "env.evaluator_env_num": 1, "env.n_evaluator_episode": 1, "policy.eval.at_limit": "false",
                 "policy.eval.evaluator.eval_freq": 10**9, "policy.model.obs_shape": "auto",
                 "policy.model.action_shape": "auto", "runtime.checkpoint_interval_s": 0})
    if kind == "sac":
        relu = json.dumps(describe_layers("relu"))
        keys.update({"graph": scratch("sac.yaml"), "policy.model.layers": relu,
                     "policy.critic": '{input: [obs, action], layers: %s, heads: {value: {type: dense}}}' % relu})
    elif one["layers"]:
        heads = "{q: {type: dense}}" if kind == "dqn" else "{policy: {type: categorical}, value: {type: dense}}"
        keys.update({"policy.model.layers": json.dumps(describe_layers(one["layers"])), "policy.model.heads": heads})
    else:
        keys["policy.model.encoder_hidden_size_list"] = [16, 12]
        if kind == "ppo":
            keys.update({"policy.model.actor_head_hidden_size": 12, "policy.model.critic_head_hidden_size": 12})
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in keys.items()}


def write_data(folder, rows):
    """A data set of random observations and actions; returns them."""
    os.mkdir(folder)
    draws = np.random.default_rng(rows)
    frames = draws.uniform(-1, 1, (rows + 1, OBS)).astype(np.float32)
    action = draws.integers(0, CHOICES, rows).astype(np.int32)
    number, zero = np.arange(rows + 1, dtype=np.int32)[:, None], np.zeros(rows, np.int32)
    save_file({"frames": frames, "obs": number[:-1], "next_obs": number[1:], "action": action, "env": zero,
               "episode": zero, "reward": zero.astype(np.float32), "done": zero.astype(np.uint8),
               "truncated": zero.astype(np.uint8)}, os.path.join(folder, "transitions-00001-of-00001.safetensors"),
              {"format": "heddle.transitions", "version": "1", "env_type": "ledger", "env_id": "", "epsilon": "0",
               "frame_stack": "1", "actions": str(CHOICES), "transitions": str(rows), "seed": "0", "policy": "0",
               "first": "0", "action_space": "discrete"})
    return frames[:-1].tolist(), action.tolist()


def read_book(path):
    """Of each step of each env: observation, action, reward, done, truncated, the next one, whether an episode began."""
    now, began, steps = {}, {}, []
    with open(path, encoding="ascii") as file:
        for entry in map(json.loads, file):
            if isinstance(entry, dict):
                now[entry["env"]], began[entry["env"]] = entry["obs"], 1
                continue
            steps.append([(now[env], *row, began[env]) for env, row in enumerate(entry)])
            now, began = dict(enumerate(row[-1] for row in entry)), dict.fromkeys(now, 0)
    return steps


def run_case(scratch, one, number):
    """Trains; returns what PyTorch is asked, and the weights afterwards."""
    folder, kind = scratch(f"book{number}"), one["kind"]
    os.mkdir(folder)
    keys, asked = list_keys(scratch, one, folder), {**one["keys"], **IMPLIED.get(kind, {})}
    if kind == "bc":
        keys["policy.collect.data_path"] = scratch(f"data{number}")
        asked["obs"], asked["action"] = write_data(scratch(f"data{number}"), one["rows"])
    directory = scratch(f"run{number}")
    train(directory, ranks=one["ranks"], config=os.path.join(ROOT, f"configs/{FILES[kind]}.yaml"),
          env=environment(HEDDLE_PLUGINS=scratch("")), **{key.replace(".", "__"): value for key, value in keys.items()})
    load = lambda name: load_file(f"{directory}/ckpt/{name}/policy.safetensors")  # noqa: E731
    nets = ("critic1", "critic2") if kind == "sac" else ()
    first = {"policy": load("best"), **{net: load(f"first_{net}") for net in nets}}
    last = {"policy": load(f"iteration_{one['updates']}"), **{net: load(net) for net in nets}}
    asked.update(name=one["name"], type=kind, seed=SEED, draws=SEED, shards=one["shards"], updates=one["updates"], unlike=one["unlike"],
                 weights={net: {name: values.tolist() for name, values in weights.items()}
                          for net, weights in first.items()})
    if kind != "bc":
        check(len(os.listdir(folder)) == one["shards"], f"{one['name']}: {os.listdir(folder)} are not its shards' books")
        asked["books"] = {name: read_book(f"{folder}/{name}") for name in os.listdir(folder)}
    if one["layers"] or kind == "sac":
        asked["layers"] = asked["critic_layers"] = LAYERS[one["layers"] or "relu"]
    if one["layers"] == "gru":
        asked["hidden"] = WIDTHS["gru"][-1]
    flat = [{f"{net}: {name}": values.flatten().astype(np.float64) for net, weights in side.items()
             for name, values in weights.items()} for side in (first, last)]
    return asked, *flat


def off(found, wanted):
    """The largest difference of any parameter."""
    check(set(found) == set(wanted), f"names: {set(found) ^ set(wanted)}")
    return max(np.abs(np.asarray(found[name]) - np.asarray(wanted[name])).max() for name in wanted)


def main():
    python = find_python()
    if not python:
        skip("no Python with PyTorch; scripts/packages tests/interop/packages.txt installs Debian's")
    cases = [one for one in CASES if all(word in one["name"] for word in sys.argv[1:])]
    with Scratch() as scratch:
        build(scratch)
        runs = [run_case(scratch, one, number) for number, one in enumerate(cases)]
    answers = run_ranks(python, "torch_updates.py", 1, [asked for asked, _, _ in runs])[0]
    failures, largest, largest_torch = [], {}, 0
    print(f"{'difference':>10} {'float32':>8} {'allowed':>8} {'moved':>6}  updates shards ranks")
    for one, (_, first, last), answer in zip(cases, runs, answers):
        error, torch_error, moved = off(last, answer["double"]), off(answer["single"], answer["double"]), off(last, first)
        allowed = ROUNDING * one["updates"]
        print(f"{error:10.1e} {torch_error:8.1e} {allowed:8.1e} {moved:6.3f}  {one['updates']:7} {one['shards']:6} "
              f"{one['ranks']:5}  {one['name']}")
        if error > allowed:
            failures.append(f"{one['name']}: differs by {error:.1e}, not {allowed:.1e}")
        check(moved > 1000 * allowed, f"{one['name']}: nothing was learned")
        for (key, value), weights in zip(one["unlike"].items(), answer["unlike"]):
            if off(weights, answer["double"]) < 20 * allowed:
                failures.append(f"{one['name']}: {key} {value} makes no difference")
        largest[one["kind"]] = max(error, largest.get(one["kind"], 0))
        largest_torch = max(torch_error, largest_torch)
    print(f"{len(cases)} comparisons; the largest differences: "
          + ", ".join(f"{kind} {error:.1e}" for kind, error in largest.items())
          + f"; PyTorch's own in single precision {largest_torch:.1e}")
    check(not failures, "\n".join(failures))


main()
