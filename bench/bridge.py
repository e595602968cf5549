# SPDX-License-Identifier: Apache-2.0
"""usage: bench/bridge [--envs N] [--workers N] [--seconds S] [--repeats N] [--policy] [--json FILE] [ENV_ID ...]

Steps N (16) environments of Gymnasium with random actions, resets included, or with those of a net of two hidden
layers of 64 (--policy; the others compute it in NumPy): by the bridge of this program (with 2
workers), and by SyncVectorEnv, AsyncVectorEnv and Stable-Baselines3's SubprocVecEnv. They take turns on the same
cores. Prints the median of the repeats in env steps a second, how many times as fast as the best other the bridge
is, and the time of a step and env. The environment that does nothing (gymnasium_envs:Idle-v0) shows what the way
to the workers costs; `floor` is a turn to another process and back that does nothing. Gymnasium's checks of each step
(disable_env_checker) are off for all."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import types
import warnings

from machine import ROOT, commit, machine

ENVS = ["gymnasium_envs:Idle-v0", "CartPole-v1", "LunarLander-v3", "HalfCheetah-v5"]
OURS, OTHERS = "bridge", ["sync", "async", "subproc"]
PARTS = os.path.join(ROOT, "build/bench/bench_parts")


def read_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name, default in (("envs", 16), ("workers", 2), ("seconds", 3), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--policy", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--measure", choices=OTHERS)  # in a process of its own
    parser.add_argument("env_id", nargs="*", default=ENVS)
    return parser.parse_args()


# -- Others -------------------------------------------------------------------------------------------------------


def import_subproc():
    """Stable-Baselines3's vector env alone: the package itself imports PyTorch."""
    import importlib.util
    folder = importlib.util.find_spec("stable_baselines3").submodule_search_locations[0]
    for name in ("", ".common", ".common.vec_env"):
        module = types.ModuleType("stable_baselines3" + name)
        module.__path__ = [os.path.join(folder, *name.split(".")[1:])]
        sys.modules[module.__name__] = module
    util = sys.modules["stable_baselines3.common.env_util"] = types.ModuleType("env_util")
    util.is_wrapped = None  # asked for at the start, and not used by steps
    from stable_baselines3.common.vec_env.subproc_vec_env import SubprocVecEnv
    return SubprocVecEnv


def make_policy(obs, space):
    """A net that is not trained, by the bridge's size; the best action, or a vector in the box."""
    import gymnasium
    import numpy as np
    discrete = isinstance(space, gymnasium.spaces.Discrete)
    rng, sizes = np.random.default_rng(0), [obs, 64, 64, space.n if discrete else space.shape[0]]
    weights = [rng.normal(0, n ** -0.5, (n, m)).astype(np.float32) for n, m in zip(sizes, sizes[1:])]
    biases = [np.zeros(m, np.float32) for m in sizes[1:]]

    def act(x):
        for w, b in zip(weights[:-1], biases):
            x = np.maximum(x @ w + b, 0)
        x = x @ weights[-1] + biases[-1]
        return x.argmax(1) if discrete else np.clip(x, space.low, space.high)

    return act


def measure(name, env_id, envs, seconds, policy):
    import gymnasium
    import numpy as np

    def make():
        warnings.simplefilter("ignore")
        return gymnasium.make(env_id, disable_env_checker=True)

    makers = [make] * envs
    if name == "subproc":
        vector = import_subproc()(makers, start_method="fork")
    else:
        kinds = {"sync": gymnasium.vector.SyncVectorEnv, "async": gymnasium.vector.AsyncVectorEnv}
        vector = kinds[name](makers)
    space = gymnasium.vector.utils.batch_space(make().action_space, envs)
    space.seed(0)
    actions = [np.asarray(space.sample()) for _ in range(256)]
    obs = vector.reset()
    obs = obs if name == "subproc" else obs[0]
    act = make_policy(obs.shape[1], make().action_space) if policy else None

    def play(duration):
        nonlocal obs
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + duration:
            obs = vector.step(act(obs) if policy else actions[steps % len(actions)])[0]
            steps += 1
        return steps * envs / (time.perf_counter() - begin)

    play(0.5)
    rate = play(seconds)
    vector.close()
    return rate


# -- Turns --------------------------------------------------------------------------------------------------------


def run(command):
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "bench"), OMP_NUM_THREADS="1",
               HEDDLE_PLUGINS=os.path.join(ROOT, "build/plugins"))
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env=env, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def step(name, env_id, options):
    if name == OURS:
        words = [PARTS, "gymnasium", env_id, options.envs, options.workers, options.seconds]
        return json.loads(run(words + ["policy"] * options.policy))["value"]
    return float(run([sys.executable, os.path.abspath(__file__), "--measure", name, "--envs", options.envs,
                      "--seconds", options.seconds, *["--policy"] * options.policy, env_id]))


def compare(env_id, options):
    rates = {name: [] for name in (OURS, *OTHERS)}
    for turn in range(options.repeats):
        for name in list(rates)[::-1 if turn % 2 else 1]:
            rates[name].append(step(name, env_id, options))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    best = max(medians[name] for name in OTHERS)
    words = ", ".join(f"{name} {median:,.0f} ({1e6 / median:.2f} us)" for name, median in medians.items())
    print(f"{env_id}: {words}; {medians[OURS] / best:.2f} times the best other", flush=True)
    return {"env_id": env_id, "steps_per_s": rates, "times_best_other": medians[OURS] / best}


def main():
    options = read_arguments()
    if options.measure:
        print(measure(options.measure, options.env_id[0], options.envs, options.seconds,
                      options.policy))
        return
    print(f"{options.envs} envs, {options.workers} workers, median of {options.repeats} turns, "
          f"{'a policy' if options.policy else 'random actions'}, env steps/s")
    floor = json.loads(run([PARTS, "gymnasium", "floor"]))["value"]
    print(f"floor: {floor:.2f} us a turn to another process and back", flush=True)
    found = [compare(env_id, options) for env_id in options.env_id]
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"machine": machine(), "commit": commit(), "floor_us": floor, "envs": options.envs,
                                   "workers": options.workers,
                                   "policy": options.policy, "found": found}) + "\n")


if __name__ == "__main__":
    main()
