#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training from Python: heddle.train, and sets of runs by the program heddle, which end in the bits of `runner run`, are
interrupted and killed, and go on."""

import csv
import os
import signal
import subprocess
import sys
import time

import heddle_package  # noqa: F401
from runner import RUNNER, Scratch, check, environment, skip, train  # noqa: E402

try:
    import optuna  # noqa: F401
    import pandas
except ImportError as error:
    skip(f"{error}; scripts/venv makes the environment for this test")
import heddle  # noqa: E402
from heddle import program  # noqa: E402

os.environ["HEDDLE_RUNNER"] = RUNNER
PACKAGE = os.path.dirname(os.path.dirname(heddle.__file__))
PRESETS = os.path.join(os.path.dirname(PACKAGE), "configs/presets")
SHORT = {"policy.eval.evaluator.eval_freq": 64, "policy.collect.n_sample": 128, "policy.learn.epoch_per_collect": 2}
ENV = """
import gymnasium
import numpy as np

class Largest(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.show(), {}

    def step(self, action):
        reward = float(action == self.state.argmax())
        return self.show(), reward, False, False, {}

    def show(self):
        self.state = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.state

    class Inner(gymnasium.Env):
        pass
"""


def start(scratch, *arguments):
    return subprocess.Popen([sys.executable, "-m", "heddle", *arguments], cwd=scratch.path, text=True,
                            env={**environment(), "PYTHONPATH": PACKAGE, "HEDDLE_RUNNER": RUNNER}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def call(scratch, *arguments, expect=0):
    process = start(scratch, *arguments)
    out, err = process.communicate()
    check(process.returncode == expect, f"heddle {' '.join(arguments)}: code {process.returncode}: {out}{err}")
    return out, err


def refused(words, *arguments, **keys):
    try:
        heddle.train(*arguments, progress=False, **keys)
    except heddle.InputError as error:
        check(all(word in str(error) for word in words), f"{words} are not in: {error}")
        return
    check(False, f"{arguments} {keys} were taken")


def check_train(scratch):
    """The bits are those of the program; metrics are those of the events, a policy acts."""
    os.chdir(scratch.path)
    run = heddle.train("ppo", env="cartpole", steps=1024, seed=3, progress=False, **SHORT)
    keys = {key.replace(".", "__"): value for key, value in SHORT.items()}
    other = train(scratch("other"), "--seed", "3", config=os.path.join(PRESETS, "ppo.yaml"), env__type="cartpole",
                  max_env_step=1024, **keys)
    check(run.result["param_hash"] == other["param_hash"], f"{run.result['param_hash']}, not {other['param_hash']}")
    check(run.ended and run.result["reason"] == "limit" and run.directory.name == "ppo", f"{run}: {run.result}")
    metrics = run.metrics
    check(isinstance(metrics, pandas.DataFrame) and metrics.index.is_monotonic_increasing, "metrics")
    returns = metrics["evaluator/eval_episode_return_mean"].dropna()
    check(list(returns.index) == list(range(0, run.result["train_iter"], 64)), f"evaluations after {list(returns.index)}")
    check(metrics["env_step"].is_monotonic_increasing, f"env steps {list(metrics['env_step'])}")
    check(run.policy.act([[0.0, 0.0, 0.0, 0.0]]).shape == (1,) and run.report.stat().st_size > 1000, "policy, report")
    for preset, env in (("a2c", "acrobot"), ("dqn", "mountain_car"), ("sac", "pendulum"), ("ppo", "pendulum")):
        short = heddle.train(preset, env=env, steps=1100, progress=False, directory=scratch(f"{preset} {env}"))
        check(short.ended and short.result["train_iter"] > 0, f"{preset} on {env}: {short.result}")
    again = heddle.train("ppo", env="heddle/CartPole-v0", steps=1024, seed=3, ranks=2, progress=False, **SHORT)
    check(again.directory.name == "ppo_1" and again.result["param_hash"] == other["param_hash"], f"two ranks: {again.result}")


def check_own_env(scratch):
    with open(scratch("largest.py"), "w", encoding="utf-8") as file:
        file.write(ENV)
    sys.path.insert(0, scratch.path)
    import largest

    sets = {**SHORT, "env.options.max_episode_steps": 20}
    made = heddle.train("ppo", env=largest.Largest, steps=1024, progress=False, directory=scratch("a class"), **sets)
    named = heddle.train("ppo", env="largest:Largest", steps=1024, progress=False, directory=scratch("a name"), **sets)
    check(made.result["param_hash"] == named.result["param_hash"], "a class and its name")

    class Here(largest.Largest):
        pass

    for env in (Here, largest.Largest.Inner):
        refused(["module of its own"], "ppo", env=env)
    refused(["expected a name or a class"], "ppo", env=3)
    refused(["NoSuch-v0"], "ppo", env="NoSuch-v0", directory=scratch("none"))


def check_refusals(scratch):
    refused(["a2c, dqn, ppo, sac"], "nope")
    refused(["'lr'"], "ppo", env="cartpole", lr=1)
    refused(["unknown key", "learning_rate"], "ppo", env="cartpole", **{"policy.learn.learning_rat": 1})
    refused(["learning_rate", "fast"], "ppo", env="cartpole", **{"policy.learn.learning_rate": "fast"})
    refused(["numbers, texts"], "ppo", env="cartpole", **{"env.options": {1j: 2j}})
    refused(["resume"], "ppo", env="cartpole", resume=True)
    for arguments, words in ((["seeds", "ppo", "--seeds", "3-x"], "--seeds"), (["seeds"], "CONFIG"),
                             (["seeds", "ppo", "--vary", "policy.learn.learning_rate"], "--vary"),
                             (["seeds", "ppo", "--set", "env.type=cartpole", "--vary", "policy.lern.rate=1,2"], "lern"),
                             (["sweep", "ppo", "--space", "no.yaml"], "no.yaml")):
        _, err = call(scratch, *arguments, expect=2)
        check(err.startswith("error: ") and words in err and "Traceback" not in err, f"{arguments}: {err}")
    out, _ = call(scratch, "keys", "seed")
    check(out.startswith("seed: "), f"a command of the program: {out}")


def wait_for(condition, process):
    while not condition():
        check(process.poll() is None, f"it ended with code {process.returncode}")
        time.sleep(0.02)


def check_interrupt(scratch):
    """A KeyboardInterrupt leaves a checkpoint, from which the run goes on to the same bits."""
    code = f"import heddle\nheddle.train('ppo', env='cartpole', steps=40000, directory='stopped', **{SHORT!r})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=scratch.path, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE,
                               env={**environment(), "PYTHONPATH": PACKAGE, "HEDDLE_RUNNER": RUNNER})
    metrics = scratch("stopped/log/metrics.jsonl")
    wait_for(lambda: os.path.exists(metrics) and os.path.getsize(metrics), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    check("KeyboardInterrupt" in err and "resume=True" in err, f"what an interrupt says: {err}")
    run = heddle.Run(scratch("stopped"))
    check(not run.ended and run.result["reason"] == "stopped", f"{run.result}")
    whole = heddle.train("ppo", env="cartpole", steps=40000, directory=scratch("whole"), progress=False, **SHORT)
    run = heddle.train("ppo", env="cartpole", steps=40000, directory=scratch("stopped"), resume=True, progress=False, **SHORT)
    check(run.ended and run.result["param_hash"] == whole.result["param_hash"], "a run that was interrupted has other bits")


def kill_when(scratch, arguments, condition):
    """Kills the command as soon as the condition holds; its runs end by themselves."""
    process = start(scratch, *arguments)
    wait_for(condition, process)
    process.kill()
    process.communicate()
    for _ in range(600):
        found = subprocess.run(["pgrep", "-f", os.path.join(scratch.path, "")], check=False, capture_output=True, text=True)
        if not found.stdout.split():
            return
        time.sleep(0.1)
    check(False, f"processes are left: {found.stdout}")


def check_seeds(scratch):
    """A set of runs is killed in its middle, goes on, and has the bits of runs one by one."""
    folder = scratch("set")
    arguments = ["seeds", "ppo", "--seeds", "0-2", "--vary", "policy.learn.learning_rate=0.001,0.0003", "--jobs", "2", "--dir",
                 folder, *program.build_sets({**SHORT, "env.type": "cartpole", "max_env_step": 20000})]
    kill_when(scratch, arguments, lambda: os.path.exists(os.path.join(folder, "learning_rate=0.001,seed=1/ckpt")))
    out, err = call(scratch, *arguments)
    check("[6/6]" in err and "before" in err, f"the second call: {err}")
    check("learning_rate" in out and os.path.exists(os.path.join(folder, "compare.html")), f"compare: {out}")
    run = heddle.train("ppo", env="cartpole", steps=20000, seed=1, directory=scratch("one"), progress=False,
                       **{**SHORT, "policy.learn.learning_rate": 0.001})
    found = heddle.Run(os.path.join(folder, "learning_rate=0.001,seed=1"))
    check(found.result["param_hash"] == run.result["param_hash"], "a run of a set has other bits than one alone")
    _, err = call(scratch, *arguments, "--set", "seed=1", expect=2)
    check("begun with" in err, f"another set in the same folder: {err}")
    _, err = call(scratch, "seeds", "ppo", "--dir", scratch.path, "--set", "env.type=cartpole", expect=2)
    check("not empty" in err, f"a folder of something else: {err}")


def read_trials(folder):
    with open(os.path.join(folder, "trials.csv"), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_sweep(scratch):
    """A search that is killed twice has the trials of one that nobody touched."""
    with open(scratch("space.yaml"), "w", encoding="utf-8") as file:
        file.write("policy.learn.learning_rate: {low: 1e-5, high: 1e-1, log: true}\npolicy.learn.batch_size: [16, 32, 64]\n"
                   "policy.learn.epoch_per_collect: {low: 1, high: 4}\n")
    arguments = ["sweep", "ppo", "--space", scratch("space.yaml"), "--trials", "8", *program.build_sets(
        {"policy.eval.evaluator.eval_freq": 16, "policy.collect.n_sample": 128, "env.type": "cartpole", "max_env_step": 8192})]
    out, _ = call(scratch, *arguments, "--dir", scratch("quiet"))
    check("the best again: heddle run" in out, out)
    for trial in ("trial_0001", "trial_0006"):
        kill_when(scratch, [*arguments, "--dir", scratch("killed")],
                  lambda: os.path.exists(scratch(f"killed/{trial}/log/metrics.jsonl")))
    again, _ = call(scratch, *arguments, "--dir", scratch("killed"))
    check(read_trials(scratch("killed")) == read_trials(scratch("quiet")), f"{out}\n{again}")
    states = [trial["state"] for trial in read_trials(scratch("quiet"))]
    check(len(states) == 8 and set(states) <= {"complete", "pruned"} and "complete" in states, f"trials: {states}")
    returns = [float(trial["return"]) for trial in read_trials(scratch("quiet")) if trial["state"] == "complete"]
    check(out.split("\n")[1].split()[1] == f"{max(returns):.4g}", f"the first of the table is not the best: {out}")
    more, _ = call(scratch, *arguments, "--dir", scratch("quiet"), "--trials", "9", "--jobs", "2")
    check(len(read_trials(scratch("quiet"))) == 9, more)
    print(f"trials: {', '.join(states)}; two kills changed none")


def check_new(scratch):
    out, _ = call(scratch, "new", "mine")
    check("heddle run run.yaml" in out, out)
    subprocess.run([sys.executable, "-W", "error", "test_my_env.py"], cwd=scratch("mine"), check=True, capture_output=True)
    run = heddle.train(scratch("mine/run.yaml"), steps=2048, directory=scratch("mine/run"), progress=False,
                       **{"env.options.python": sys.executable})
    check(run.ended, f"{run.result}")
    _, err = call(scratch, "new", "mine", expect=2)
    check("mine exists" in err, err)


def main():
    with Scratch() as scratch:
        check_train(scratch)
        check_own_env(scratch)
        check_refusals(scratch)
        check_interrupt(scratch)
        check_seeds(scratch)
        check_sweep(scratch)
        check_new(scratch)


main()
