#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No key is without effect in silence. For every algorithm, each key of the run file and each number of the
strategy gets other values: the run has another result, says that the key is not used, or refuses the value;
and nothing is said to be unused that changes a result. Keys that docs/determinism.md says change no bit leave
results as they are, and each has an effect that is counted. A commit tries a share; HD_WHOLE=1 all."""

import collections
import concurrent.futures
import functools
import itertools
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import CONFIG, ROOT, Scratch, call, check, environment, launch_nodes, result, sets, train  # noqa: E402
from ways import take_share  # noqa: E402

RESULTS = ("param_hash", "eval_value_raw", "eval_train_iter", "last_value_raw", "best_train_iter", "env_step",
           "train_iter", "reason", "detail", "seed", "shards")
SMALL = {"runtime.executor": "sequential", "world.shards": 2, "env.stop_value": "1e9", "max_train_iter": 40,
         "policy.cuda": "false", "policy.learn.batch_size": 16, "policy.learn.learning_rate": 0.01,
         "policy.eval.evaluator.eval_freq": 20}
DENSE = {"policy.model.encoder_hidden_size_list": "[16, 16]"}
OFF_POLICY = {**DENSE, "policy.other.eps.decay": 2000, "policy.collect.n_sample": 64,
              "policy.learn.update_per_collect": 1, "policy.other.replay_buffer.replay_buffer_size": 400,
              "policy.collect.truncation": "bootstrap"}
ON_POLICY = {**DENSE, "policy.model.actor_head_hidden_size": 0, "policy.model.critic_head_hidden_size": 0,
             "policy.collect.n_sample": 72, "policy.learn.epoch_per_collect": 2}
NORMALISED = {"policy.collect.normalize_obs": "true", "policy.collect.normalize_reward": "true"}
CRITIC = "{input: [obs, action], layers: [{dense: %d}, relu], heads: {value: {type: dense}}}"
CLONE = {**DENSE, "policy.collect.data_path": "demos"}
# Of each algorithm a run file, and what makes it small, or turns on what is off by default.
ALGORITHMS = {
    "dqn": ("cartpole_dqn_ddp", OFF_POLICY),
    "dqn, normalised, of several steps": ("cartpole_dqn_ddp",
                                          {**OFF_POLICY, **NORMALISED, "policy.nstep": 3}),
    "dqn by priority": ("cartpole_dqn_priority", OFF_POLICY),
    "dqn by priority, unweighted": ("cartpole_dqn_priority",
                                    {**OFF_POLICY, "policy.priority_IS_weight": "false"}),
    "qrdqn": ("cartpole_qrdqn", OFF_POLICY),
    "sac": ("pendulum_sac", {"policy.model.layers": "[{dense: 16}, relu]", "policy.critic": CRITIC % 16,
                             "policy.collect.n_sample": 64, "policy.random_collect_size": 70,
                             "policy.collect.truncation": "terminal"}),
    "ppo": ("cartpole_ppo_ddp", ON_POLICY),
    "ppo, adapted": ("cartpole_ppo_ddp", {**ON_POLICY, **NORMALISED, "graph": "graphs/ppo_fast.yaml",
                                          "policy.learn.lr_scheduler.type": "kl",
                                          "policy.learn.lr_scheduler.kl_low": 0.009,
                                          "policy.learn.lr_scheduler.kl_high": 0.01,
                                          "policy.learn.lr_scheduler.max": 1, "max_train_iter": 120}),
    "ppo of numbers": ("pendulum_ppo", {**ON_POLICY, "policy.collect.n_sample": 240,
                                        "policy.learn.batch_size": 70, "max_train_iter": 60}),
    "ppo of sequences": ("cartpole_hidden_ppo_gru",
                         {"policy.model.layers": "[{gru: {hidden: 8}}]", "policy.collect.n_sample": 96,
                          "policy.collect.unroll_len": 3, "policy.learn.batch_size": 15,
                          "policy.learn.epoch_per_collect": 2}),
    "a2c": ("cartpole_a2c_ddp", {**DENSE, "policy.collect.n_sample": 72}),
    "vtrace": ("cartpole_vtrace_ddp", {**DENSE, "policy.collect.n_sample": 72}),
    "dqn, local": ("cartpole_dqn_ddp", {**OFF_POLICY, "graph": "graphs/dqn_local.yaml", "strategy.local_updates": 4,
                                        "policy.learn.outer.momentum": 0.5}),
    "bc": ("cartpole_bc_ddp", CLONE),
    "bc, normalised": ("cartpole_bc_ddp", {**CLONE, "graph": "graphs/bc_norm.yaml",
                                           "policy.model.norm": "sync_batch_norm"}),
}


# -- Values ------------------------------------------------------------------------------------------

# Other values, where neither the other words nor twice or half a number would do.
VALUES = {
    "graph": ["graphs/no_such.yaml"], "strategy": ["no_such.yaml"], "exp_name": ["other"],
    "max_env_step": [30], "max_train_iter": [20], "env.stop_value": ["-1e9"], "env.type": ["acrobot"],
    "env.env_id": ["no_such_game"], "env.options": ["{no_such_option: 1}"], "env.evaluator_env_num": [1],
    "env.max_evaluator_step": [5], "env.collector_env_num": [2], "policy.cuda": ["true"],
    "policy.model.encoder_hidden_size_list": ["[8, 8]"], "policy.model.layers": ["[{dense: 8}, relu]"],
    "policy.model.actor_head_hidden_size": [8],
    "policy.model.inputs": ["{vector: {obs: state}}"],
    "policy.model.heads": ["{policy: {type: categorical, layers: [{dense: 8}]}}"],
    "policy.critic": [CRITIC % 8], "policy.action_bounds": ["{low: -1, high: 1}"],
    "policy.model.critic_head_hidden_size": [8], "policy.nstep": [2], "policy.learn.microbatch": [8],
    "policy.learn.accumulate": [2], "policy.learn.target_update_freq": [7],
    "policy.learn.grad_clip_value": [0.01], "policy.learn.freeze": ["[no_such]"], "policy.learn.clip_ratio": [0.0001],
    "policy.learn.lr_scheduler.kl_low": [1e-5], "policy.learn.lr_scheduler.kl_high": [0.05],
    "policy.learn.lr_scheduler.factor": [3], "policy.learn.lr_scheduler.min": [0.5],
    "policy.learn.lr_scheduler.max": [0.002], "policy.learn.schedule.total": [30],
    **{f"policy.learn.schedule.{name}": ["{type: linear, end: 0.5}"]
       for name in ("learning_rate", "learning_rate_q", "clip_ratio", "entropy_weight")},
    "policy.learn.train_epoch": [1],
    "policy.collect.data_path": ["nowhere"], "policy.collect.env_groups": [2],
    "policy.collect.unroll_len": [9], "policy.collect.obs_samples": [3], "policy.collect.clip_obs": [0.01],
    "policy.collect.clip_reward": [0.01], "policy.random_collect_size": [130],
    "policy.other.replay_buffer.replay_buffer_size": [80], "policy.other.replay_buffer.anneal_step": [10],
    "policy.eval.evaluator.eval_freq": [7], "policy.eval.video_every": [1], "strategy.policy_lag": [2],
    "strategy.eval_lag": [2], "strategy.batch_buffers": [3], "strategy.bucket_mb": [0.001],
    "strategy.shard_optimizer_above_mb": [0], "strategy.exchange_precision": ["bf16"], "strategy.error_feedback": [1],
    "strategy.local_updates": [2],
}
SCHEDULE = {"policy.learn.schedule.over": "update", "policy.learn.schedule.total": 50}
SCHEDULED = {"policy.learn.schedule.learning_rate": "{type: linear, end: 0}", "policy.learn.schedule.total": 50}
DEEP = ", ".join(10 * ["{dense: 16}"])
# What has to be so for a key to have an effect, of the first algorithm in whose name the text is.
CIRCUMSTANCES = {
    "strategy.error_feedback": {"": {"strategy.exchange_precision": "int8"}},
    "strategy.eval_lag": {"sac": {"env.stop_value": "-1e9", "policy.random_collect_size": 0},
                          "": {"env.stop_value": "-1e9"}},  # the evaluation that ends a run is seen later
    "policy.collect.truncation": {"dqn": {"env.type": "mountain_car", "policy.model.obs_shape": 2,
                                          "policy.model.action_shape": 3}},  # whose episodes are cut
    "policy.collect.surplus": {"sac": {"env.collector_env_num": 2}},
    "policy.learn.schedule.over": {"bc": {}, "adapted": {}, "": SCHEDULED},
    "policy.learn.schedule.total": {"adapted": {}, "": {**SCHEDULED, **SCHEDULE}},
    **{f"policy.learn.schedule.{name}": {"": SCHEDULE}
       for name in ("learning_rate", "learning_rate_q", "clip_ratio", "entropy_weight")},
    "policy.eval.seeds": {"": {"env.n_evaluator_episode": 15}},
    "runtime.on_nan": {
        "sac": {"policy.learn.learning_rate": 1000, "policy.learn.learning_rate_q": 1000,
                "policy.critic": CRITIC.replace("{dense: %d}, relu", DEEP)},
        "sequences": {"policy.learn.learning_rate": 1000,
                      "policy.model.layers": f"[{{gru: {{hidden: 8}}}}, {DEEP}]"},
        "": {"policy.learn.learning_rate": 1000, "policy.model.encoder_hidden_size_list": str(10 * [16]),
             "max_train_iter": 40}},
}


def find_circumstances(algorithm, key):
    return next((keys for name, keys in CIRCUMSTANCES.get(key, {}).items() if name in algorithm), {})


def read_keys():
    """{key: text} of all keys, and of the numbers of a strategy."""
    lines = call("keys").stdout.splitlines()
    keys = {head.split(":")[0]: text for head, text in zip(lines[::2], lines[1::2])}
    return {**keys, **{key: "" for key in VALUES if key.startswith("strategy.")}}


def read_values(path):
    """{key: text} of a total_config.yaml."""
    section, values = [], {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, _, value = line.strip().partition(":")
            section = section[:(len(line) - len(line.lstrip())) // 2] + [name]
            values[".".join(section)] = value = re.sub(r"\s+# .*", "", value).strip()
            if section == ["strategy"]:
                values |= {f"strategy.{key}": number for key, number in re.findall(r"(\w+): ([^,{}]+)", value)}
    return values


def find_values(key, text, now):
    """Values of a key other than `now`. The word auto stands for one of the others."""
    if key in VALUES:
        return VALUES[key]
    words = re.search(r"; one of ([\w, -]+)", text)
    if words or "; true or false" in text:
        choices = words[1].split(", ") if words else ["true", "false"]
        return [word for word in choices if word not in (now, "auto")]
    number = float(now) if re.match(r"[-+.0-9]", now) else 1
    if "; an integer" in text:
        return [f"{2 * number or 1:g}"]
    check("; a finite number" in text, f"{key} has no other value here: {text}")
    return [f"{number / 2 or 0.5:g}"]


# -- Effects of what changes no bit --------------------------------------------------------------------

# How the effect of a key is seen: values that have to be told apart by what a run leaves, the function that
# sees it, and what else is set. Results are the same.
Effect = collections.namedtuple("Effect", "values see keys", defaults=({},))


def read_metrics(directory):
    """The first and the last line, and the last sample, of the metrics."""
    with open(os.path.join(directory, "log/metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return lines[0]["start"], dict((verb, n) for verb, n, _ in lines[-1]["end"]["verbs"]), lines[-2]


def see_start(name):
    return lambda directory: read_metrics(directory)[0][name]


def see_value(name, column):
    return lambda directory: next(row[column] for row in see_start("values")(directory) if row[0] == name)


def see_calls(verb):
    return lambda directory: read_metrics(directory)[1][verb]


def see_sent(directory):
    return read_metrics(directory)[2]["sent_bytes"]


def see_files(folder):
    def count(directory):
        path = os.path.join(directory, folder)
        return len(os.listdir(path)) if os.path.exists(path) else 0
    return count


def see_overlap(directory):
    """Whether a task of the iterations was done before one of an earlier iteration."""
    with open(os.path.join(directory, "trace.json"), encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    done = sorted((event["ts"], event["args"]["iteration"]) for event in events
                  if event["name"] in ("collect", "sample_replay", "loss_grad", "adam"))
    return any(b < a for (_, a), (_, b) in itertools.pairwise(done))


GROUPS = "policy.collect.env_groups"
PPO = {"config": "cartpole_ppo_ddp", "policy.collect.segment_at_done": "false", "policy.collect.n_sample": 64}
PIXELS = {"config": "pixel_pong_dqn_ddp", "max_train_iter": 1, "world.shards": 1,
          "policy.learn.batch_size": 16, "env.max_evaluator_step": 1,
          "policy.other.replay_buffer.replay_buffer_size": 10000,
          "policy.model.encoder_hidden_size_list": "[8, 8, 16]"}
TWO, STARPU = {"ranks": 2}, {"runtime.executor": "starpu"}
SCHEDULERS = re.search(r"one of ([\w, -]+);", call("keys", "runtime.scheduler").stdout)[1].split(", ")
EFFECTS = {
    "exp_name": Effect(["one", "two"], os.path.basename, {"named": True}),
    "runtime.executor": Effect(["sequential", "starpu"], see_start("scheduler")),
    "runtime.scheduler": Effect(SCHEDULERS, see_start("scheduler"), STARPU),
    "runtime.performance_models": Effect(["false", "true"], lambda directory: os.path.exists(directory + " models"), STARPU),
    "runtime.workers": Effect([1, 2], see_start("workers"), STARPU),
    "runtime.max_inflight_iterations": Effect(
        [1, 8], see_overlap, {**STARPU, "runtime.workers": 2, "strategy.policy_lag": 1, "--trace": True}),
    "runtime.param_check_interval": Effect([1, 10], see_calls("compare"), TWO),
    "runtime.open_exchanges": Effect([1, 4], see_start("channels"), TWO),
    "runtime.transport": Effect(["shm", "tcp"], see_sent, {**TWO, "nodes": 2}),
    "runtime.exchange": Effect(["direct", "pairs", "halves"], see_sent, {"ranks": 4, "nodes": 4,
                                                                         "runtime.transport": "tcp"}),
    "runtime.checkpoint_interval_s": Effect([0, 1e-6], see_files("ckpt/state")),
    "runtime.checkpoint_keep": Effect([1, 3], see_files("ckpt/state"), {"runtime.checkpoint_interval_s": 1e-6,
                                                                        "max_train_iter": 400}),
    "strategy.bucket_mb": Effect([25, 0.02], see_calls("adam")),
    "strategy.batch_buffers": Effect([1, 3], see_value("batch", 4)),
    "strategy.shard_optimizer_above_mb": Effect([1000, 0], see_calls("mean"), TWO),
    GROUPS: Effect([1, 2], see_calls("collect_on_policy"), PPO),
    "policy.collect.overlap_act_step": Effect(["false", "true"], see_calls("collect_on_policy"), PPO),
    "policy.eval.video_every": Effect([0, 1], see_files("video")),
    "env.evaluator_env_num": Effect([1, 5], see_value("eval_envs", 5)),
    "policy.other.replay_buffer.frame_slack": Effect([0, 0.5], see_value("replay", 5), PIXELS),
}
# Keys of faults and of several ranks, and the tests that have a fault or these ranks.
TESTED = {
    "runtime.allow_fingerprint_mismatch": "runtime/ranks/test_rendezvous.c",
    "runtime.allow_origin_mismatch": "train/test_origins.py",
    "runtime.checkpoint_timeout_s": "fault/test_checkpoint_failure.py",
    "runtime.heartbeat_timeout_s": "fault/test_lost_node.py",
    "runtime.link_hash": "train/test_nodes.py",
    "runtime.link_timeout_s": "fault/test_broken_link.py",
    "runtime.sigterm_grace_s": "runtime/launch/test_launch_signals.c",
    "runtime.watchdog_s": "fault/test_watch.py",
}

PROMISED = EFFECTS.keys() | TESTED.keys() | {"policy.multi_gpu"}


def play(scratch, key, value, effect):
    """The results of a run, and what is seen of the key."""
    keys = {"max_train_iter": 100, "world.shards": 4, "env.stop_value": "1e9", "policy.cuda": "false",
            **effect.keys, key: value}
    trace, named = keys.pop("--trace", False), keys.pop("named", False)
    ranks, nodes = keys.pop("ranks", 1), keys.pop("nodes", 1)
    config = os.path.join(ROOT, f"configs/{keys.pop('config', 'cartpole_dqn_ddp')}.yaml")
    directory = scratch(value if named else f"{key} {value}")
    options = [config, "--quiet", *sets(**keys), *["--trace"] * trace]
    options += [] if named else ["--dir", directory]
    if nodes > 1:
        launch_nodes(nodes, ranks, *options)
    else:
        command = ["launch", "--nproc-per-node", str(ranks)] if ranks > 1 else ["run"]
        call(*command, *options, cwd=scratch.path, env=environment(STARPU_PERF_MODEL_DIR=directory + " models"))
    ended = result(directory)
    return {name: ended[name] for name in RESULTS}, effect.see(directory)


def check_effects(scratch):
    for key, effect in take_share(EFFECTS.items(), "effects"):
        runs = [play(scratch, key, value, effect) for value in effect.values]
        seen = dict(zip(effect.values, (seen for _, seen in runs)))
        check(all(results == runs[0][0] for results, _ in runs), f"{key} changes results: {runs}")
        check(len(set(seen.values())) == len(seen), f"{key}: no effect is seen: {seen}")
        print(f"{key}: the same results, and {seen}")


def check_tested():
    """The tests that are named are there and set the key. Several ranks refuse to be none."""
    call("launch", "--nproc-per-node", "2", CONFIG, *sets(policy__multi_gpu="false"), expect=2)
    for key, path in TESTED.items():
        with open(os.path.join(ROOT, "tests", path), encoding="utf-8") as file:
            check(re.search(key.rsplit(".", 1)[1], file.read()), f"{path} does not set {key}")


# -- Every key of every algorithm ----------------------------------------------------------------------

Outcome = collections.namedtuple("Outcome", "code said results values")
numbers = itertools.count()


class Campaign:
    def __init__(self, scratch):
        self.scratch, self.bases, self.counts = scratch, {}, collections.Counter()

    def run(self, algorithm, keys):
        """How a run ends, which leaves nothing else."""
        config, directory = ALGORITHMS[algorithm][0], self.scratch(str(next(numbers)))
        if keys.get("policy.collect.data_path") == "demos":
            keys = {**keys, "policy.collect.data_path": self.scratch("demos")}
        options = ["--dir", directory, *sets(**keys)]
        done = call("run", os.path.join(ROOT, f"configs/{config}.yaml"), *options, expect=None)
        results, values = None, {}
        if done.returncode == 0:
            ended = result(directory)
            results = {name: ended[name] for name in RESULTS}
            values = read_values(f"{directory}/total_config.yaml")
        shutil.rmtree(directory, ignore_errors=True)
        return Outcome(done.returncode, done.stderr, results, values)

    def base(self, algorithm, key=""):
        """The run with which those of a key are compared."""
        place = (algorithm, *find_circumstances(algorithm, key))
        if place not in self.bases:
            self.bases[place] = self.run(algorithm, list_settings(algorithm, key))
        return self.bases[place]

    def try_value(self, job):
        algorithm, key, value = job
        keys = {**list_settings(algorithm, key), key: value}
        other = self.run(algorithm, keys)
        names = [f"--set:{1 + list(keys).index(key)}:", *re.findall(r"\w{2,}", str(value))]
        return job, classify(key, names, self.base(algorithm, key), other), other


def list_settings(algorithm, key):
    return {**SMALL, **ALGORITHMS[algorithm][1], **find_circumstances(algorithm, key)}


def classify(key, names, base, other):
    """changed, told, refused or equal as promised; else what is wrong. A refusal names the key or one of
    `names`."""
    unused = f"{key} is not used by" in other.said
    if other.code == 2:
        named = any(name in other.said for name in (key.rsplit(".", 1)[-1], *names))
        return "refused" if named else "REFUSED, but not for the key"
    if other.code not in (0, base.code):
        return f"EXIT CODE {other.code}"
    if (other.code, other.results) == (base.code, base.results):
        if unused or re.search(rf"warning: .*{re.escape(key)}", other.said):
            return "told"
        return "equal as promised" if key in PROMISED else "SILENT"
    if key in PROMISED - {GROUPS}:
        return "CHANGED, though it changes no bit"
    return "SAID TO BE UNUSED, but it changed" if unused else "changed"


def list_jobs(campaign):
    keys = read_keys()
    for algorithm in ALGORITHMS:
        base = campaign.base(algorithm)
        check(base.code == 0, f"{algorithm}: {base.said}")
        check("warning" not in base.said, f"{algorithm}: {base.said}")
        for key, text in keys.items():
            now = base.values.get(key, "")
            for value in find_values(key, text, now):
                check(str(value) != now, f"{key} of {algorithm} is {now} already")
                yield algorithm, key, value


def check_keys(scratch):
    campaign, wrong = Campaign(scratch), []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job, word, other in pool.map(campaign.try_value, take_share(list_jobs(campaign), "keys")):
            campaign.counts[word] += 1
            if word[:2].isupper():
                wrong.append(f"{' '.join(map(str, job))}: {word}: {other.said[:300]}")
    print(*(f"{n} {word}" for word, n in campaign.counts.items()), sep=", ")
    check(not wrong, "\n".join(wrong))


def main():
    with Scratch() as scratch:
        train(scratch("teacher"), max_train_iter=20, runtime__executor="sequential")
        weights = scratch("teacher/ckpt/iteration_20/policy.safetensors")
        options = ["--transitions", "301", "--epsilon", "0.5", "--out", scratch("demos"), "--quiet"]
        call("record", CONFIG, "--weights", weights, *options)
        check_tested()
        check_effects(scratch)
        check_keys(scratch)


main()
