# SPDX-License-Identifier: Apache-2.0
"""Runs of the program on the GPU: the same bits whatever executes a graph, time to a solved game, strategies
side by side, calls that wait, how busy the GPU is."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import time

import speed
from jobs import FAILED, MEASURED, PASSED, SKIPPED, TIMED_OUT, last_line, read_json, read_lines, signal_group

ENDLESS = ["env.stop_value=1e9", "max_env_step=1e15"]
EXECUTORS = {"lws": ["runtime.scheduler=lws"], "sequential": ["runtime.executor=sequential"],
             "prio": ["runtime.scheduler=prio"]}
TRAINED = {"dqn": "cartpole_dqn_ddp.yaml", "ppo": "cartpole_ppo_ddp.yaml", "list": "pixel_pong_ppo_impala.yaml"}
UPDATES = {"dqn": 1000, "ppo": 1000, "list": 20}  # until bits are compared


# On the emulation: little of everything.
TINY = ["world.shards=1", "env.collector_env_num=2", "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
        "env.max_evaluator_step=20", "policy.collect.n_sample=16", "policy.learn.batch_size=4",
        "policy.model.encoder_hidden_size_list=[8,8]"]
TINY_PPO = ["policy.learn.epoch_per_collect=1", "policy.model.actor_head_hidden_size=0",
            "policy.model.critic_head_hidden_size=0"]
TINY_DQN = ["policy.learn.update_per_collect=1"]
TINY_LIST = ["policy.learn.epoch_per_collect=1", "policy.learn.microbatch=2",
             "policy.model.layers=[{conv: {channels: 4, kernel: 3, stride: 4}}, relu, flatten, {dense: 8}, layer_norm]"]


def options(kit, config, settings):
    tiny = [*TINY, *(TINY_LIST if "impala" in config else TINY_PPO if "ppo" in config else TINY_DQN)] if kit.tiny else []
    return [word for setting in ["policy.cuda=true", *tiny, *settings] for word in ("--set", setting)]


def run(kit, step, config, settings, limit, ranks=1, program=None, **env):
    """Trains; returns the program that has ended, and the folder that it leaves. A run that fails is repeated
    task by task, because then the message names the task that did it."""
    done, folder = train(kit, step, config, settings, limit, ranks, program, **env)
    sequential = "runtime.executor=sequential"
    if done.outcome()["outcome"] in (FAILED, TIMED_OUT) and sequential not in settings:
        again, _ = train(kit, step + "/sequential", config, [*settings, sequential], min(limit, 100), ranks, program, **env)
        kit.record(step + "/sequential", **again.outcome(), what="the failed run again", seconds=round(again.seconds, 2))
    return done, folder


def train(kit, step, config, settings, limit, ranks, program, **env):
    folder = kit.file("runs", step.replace("/", "-"))
    shutil.rmtree(folder, ignore_errors=True)
    start = ["launch", "--nproc-per-node", ranks] if ranks > 1 else ["run"]
    words = [program or kit.program("runner"), *start, kit.config(config), "--quiet", "--dir", folder,
             *options(kit, config, settings)]
    return kit.execute(step, words, limit, env=kit.environment(**env)), folder


# -- Smoke -------------------------------------------------------------------------------------------

SMOKE = {"a kernel": "test_adam", "a GEMM": "test_gemm", "a recorded graph": "test_steps",
         "a chain of StarPU's": "test_cuda_workers"}


def smoke(kit):
    """One of everything that the rest needs, each in seconds."""
    for what, name in SMOKE.items():
        if name not in kit.about["tests"]:
            kit.record(f"smoke/{name}", SKIPPED, why="not among the tests of this call")
            continue
        done = kit.execute(f"smoke/{name}", kit.test(name), 60, env=kit.environment(CK_FORK="no"))
        kit.record(f"smoke/{name}", **done.outcome(), what=what, seconds=round(done.seconds, 2))
    for name, config in TRAINED.items():
        updates = 2 if kit.tiny else 20
        done, _ = run(kit, f"smoke/{name}", config, [*ENDLESS, f"max_train_iter={updates}"], 60)
        kit.record(f"smoke/{name}", **done.outcome(), what=f"{updates} updates", seconds=round(done.seconds, 2))


# -- The same bits -----------------------------------------------------------------------------------

def compare(kit, group, contenders):
    """contenders: {name: (config, settings, ranks[, environment])}, which must end in the same parameters."""
    wanted = None
    for name, (config, settings, ranks, *env) in contenders.items():
        done, folder = run(kit, f"{group}/{name}", config, settings, 300, ranks, **dict(*env))
        result, more = done.outcome(), {}
        if result["outcome"] == PASSED:
            found = read_json(os.path.join(folder, "result.json"))["param_hash"]
            wanted, more = wanted or found, {"param_hash": found}
            if found != wanted:
                result = {"outcome": FAILED, "why": f"ends in {found}, the first one in {wanted}"}
        kit.record(f"{group}/{name}", **result, what=more.get("param_hash"), seconds=round(done.seconds, 2), **more)


def on_gpu(kit, name, config):
    """That tasks of the plan are for the GPU, or what follows says nothing of one."""
    done = kit.execute(f"bits/{name}/plan", [kit.program("runner"), "graph", kit.config(config),
                                              *options(kit, config, [])], 60)
    tasks = sum("(gpu)" in line or ", gpu" in line for line in done.said.splitlines())
    result = done.outcome()
    if result["outcome"] == PASSED and not tasks:
        result = {"outcome": FAILED, "why": "no task is for a GPU"}
    kit.record(f"bits/{name}/plan", **result, what=f"{tasks} lines of the plan name a GPU")


def bits(kit):
    for name, config in TRAINED.items():
        on_gpu(kit, name, config)
        updates = f"max_train_iter={3 if kit.tiny else UPDATES[name]}"
        compare(kit, f"bits/{name}", {how: (config, [*ENDLESS, updates, *settings], 1)
                                      for how, settings in list(EXECUTORS.items())[:2 if kit.tiny else None]})
        if kit.tiny:
            kit.record(f"ranks/{name}", SKIPPED, why="on the emulation")
            continue
        shards = [*ENDLESS, updates, "world.shards=2"]
        compare(kit, f"ranks/{name}", {"1 rank of 2 shards": (config, shards, 1),
                                       "2 ranks on one GPU": (config, shards, 2)})


def early(kit):
    """Kernels that are launched before their predecessors have ended: the same parameters."""
    for name, config in list(TRAINED.items())[:1 if kit.tiny else None]:
        settings = [*ENDLESS, f"max_train_iter={3 if kit.tiny else UPDATES[name]}"]
        compare(kit, f"early/{name}", {"off": (config, settings, 1), "on": (config, settings, 1, {"HD_EARLY_LAUNCH": 1})})
    speed.early(kit)


# -- Solved games ------------------------------------------------------------------------------------

# (name, run file, keys, the most seconds)
GAMES = [("pixel_pong_gpu", "pixel_pong_gpu.yaml", [], 120), ("pong_ppo_gpu", "pong_ppo_gpu.yaml", [], 240),
         *((f"pong_ppo_gpu, {n} parts", "pong_ppo_gpu.yaml", [f"policy.collect.act_parts={n}"], 60) for n in (3, 4))]


class Sampler:
    """What nvidia-smi says of the GPU's use while something else runs."""

    def __init__(self, kit, name):
        self.path = kit.file("logs", name.replace("/", "-") + "-use.csv")
        self.process = None
        if shutil.which("nvidia-smi"):
            with open(self.path, "w", encoding="utf-8") as file:
                self.process = subprocess.Popen(["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "-lms", "250",
                                                 "--format=csv,noheader,nounits"], stdout=file, start_new_session=True)

    def end(self):
        """Shares are of the time in which at least one kernel ran, the first fifth left out."""
        if not self.process:
            return {}
        signal_group(self.process, signal.SIGTERM)
        self.process.wait()
        with open(self.path, encoding="utf-8") as file:
            rows = [line.split(",") for line in file if line.strip().endswith(tuple("0123456789"))]
        use = [float(row[0]) / 100 for row in rows[len(rows) // 5:]]
        return {"gpu_busy": round(sum(use) / len(use), 4), "gpu_mb": max(float(row[1]) for row in rows)} if use else {}


def absent(kit, config):
    if not os.path.exists(kit.config(config)):
        return f"there is no configs/{config}"
    atari = os.path.join(kit.environment()["HEDDLE_PLUGINS"], "heddle_env_atari.so")
    if not config.startswith("pixel") and not os.path.exists(atari):
        return "the bundle has no Atari plug-in: scripts/atari had not been run"
    return None


def games(kit):
    for name, config, settings, limit in GAMES:
        step, why = f"games/{name}", absent(kit, config)
        if why or kit.tiny:
            kit.record(step, SKIPPED, why=why or "on the emulation")
            continue
        sampler = Sampler(kit, step)
        done, folder = run(kit, step, config, settings, limit, program=kit.fast_runner())
        use, result, more = sampler.end(), done.outcome(), {}
        if result["outcome"] == PASSED:
            end = read_json(os.path.join(folder, "result.json"))
            more = {name: end.get(name) for name in ("reason", "eval_value", "env_step", "train_iter", "param_hash")}
            result = {"outcome": MEASURED if end.get("reason") == "solved" else FAILED}
        kit.record(step, **result, value=round(done.seconds, 2), unit="s", what=str(more.get("eval_value")), **more, **use)


# -- Speeds ------------------------------------------------------------------------------------------

def strategies(kit):
    config = "cartpole_dqn_ddp.yaml" if kit.tiny else "pixel_pong_dqn_ddp.yaml"
    names = "serial,bucketed" if kit.tiny else "serial,bucketed,pipelined"
    updates, warmup, repeats = (2, 1, 1) if kit.tiny else (500, 100, 3)
    for ranks in (1,) if kit.tiny else (1, 2):
        step = f"strategies/{ranks} rank{'s' * (ranks > 1)}"
        path = kit.file("strategies", f"{ranks}.jsonl")
        if os.path.exists(path):
            os.remove(path)
        words = [kit.program("runner"), "bench", kit.config(config), "--strategies", names,
                 "--ranks", ranks, "--updates", updates, "--warmup", warmup, "--repeats", repeats, "--json", path,
                 *options(kit, config, [f"world.shards={1 if kit.tiny else 2}"])]
        done = kit.execute(step, words, 400)
        result = done.outcome()
        if result["outcome"] != PASSED:
            kit.record(step, **result)
        lines = read_lines(path) if result["outcome"] == PASSED else []
        for name in names.split(",") if lines else []:
            runs = [line for line in lines if line["strategy"] == name]
            share = {what: statistics.median(run[what] for run in runs) for what in ("busy", "exposed", "idle")}
            kit.record(f"{step}/{name}", MEASURED, value=statistics.median(run["updates_per_s"] for run in runs),
                       unit="updates/s", config=config, **share, param_hash=runs[0]["param_hash"],
                       what=" ".join(f"{name} {100 * value:.1f} %" for name, value in share.items()))


# What runs long enough by itself to be looked at when it is warm.
STEADY = {"cartpole_dqn": ("cartpole_dqn_ddp.yaml", []), "cartpole_ppo": ("cartpole_ppo_ddp.yaml", []),
          "pixel_pong_dqn": ("pixel_pong_dqn_ddp.yaml", []), "pixel_pong_ppo": ("pixel_pong_gpu.yaml", [])}


def count_calls(kit, step, config, settings):
    """Lets a run go until its calls have been counted: (the counts or None, why not, how busy the GPU was)."""
    window = {"HD_COUNT_FROM": 200, "HD_COUNT_TO": 260} if kit.tiny else {"HD_COUNT_AFTER_S": 15, "HD_COUNT_FOR_S": 10}
    counts, folder = kit.file("calls", step.replace("/", "-") + ".json"), kit.file("runs", step.replace("/", "-"))
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.exists(counts):
        os.remove(counts)
    env = kit.environment(HD_COUNT_CALLS=counts, **window,
                          LD_PRELOAD=os.path.join(kit.program("../lib"), "libcount_calls.so"))
    words = [kit.program("runner"), "run", kit.config(config), "--quiet", "--dir", folder,
             *options(kit, config, [*ENDLESS, "max_train_iter=1000000000", "policy.eval.evaluator.eval_freq=1000000000",
                                "world.shards=1", *settings])]
    sampler = Sampler(kit, step)
    process = kit.start(step, words, env=env)
    end = time.monotonic() + (180 if kit.tiny else 55)
    while process.poll() is None and not os.path.exists(counts) and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.2)
    use, early = sampler.end(), process.poll()
    kit.stop(process)
    if os.path.exists(counts):
        return read_json(counts), None, use
    with open(process.log, encoding="utf-8", errors="replace") as file:
        said_last = last_line(file.read())
    return None, f"it ended with exit code {early}: {said_last}" if early is not None else TIMED_OUT, use


def steady(kit):
    for name, (config, settings) in list(STEADY.items())[:1 if kit.tiny else None]:
        step = f"steady/{name}"
        counts, why, use = count_calls(kit, step, config, settings)
        if counts is None:
            kit.record(step, FAILED, why=why)
            continue
        waiting = {call: n for call, n in counts.items() if n and (call not in (
            "synchronous", "cudaLaunchKernelExC", "cudaGraphLaunch", "cudaMemcpyAsync"))}
        live = counts["cudaMemcpyAsync"] + counts["cudaGraphLaunch"] + counts["cudaLaunchKernelExC"] > 0 or kit.tiny
        why = f"calls that wait: {json.dumps(waiting)}" if counts["synchronous"] else None if live else "nothing ran"
        kit.record(step, FAILED if why else PASSED, why=why, value=counts["synchronous"], unit="calls that wait",
                   calls=counts, **use)
