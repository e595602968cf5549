# SPDX-License-Identifier: Apache-2.0
"""Training classic control tasks with small nets on two cores: env steps per second of whole training
iterations, start-up and evaluations left out. Stable-Baselines3 runs its own learner with as many envs,
samples, epochs and rows of a batch, and with nets of the same widths, on one thread and on two."""

import contextlib
import functools
import json

from turns import OURS, report, train
from worker import Worker

# What is compared: our run file and settings; updates until it is warm, and that count; then Stable-Baselines3's
# algorithm, env, number of envs, constructor's arguments, and env steps that count.
TWO = ["world.shards=2", "runtime.workers=2"]
HEADS = ["policy.model.encoder_hidden_size_list=[64, 64]", "policy.model.actor_head_hidden_size=64",
         "policy.model.critic_head_hidden_size=64"]
PPO = {"batch_size": 128, "learning_rate": 1e-3, "clip_range": 0.2, "max_grad_norm": 0.5, "gae_lambda": 0.95,
       "gamma": 0.9}
SAC = {"batch_size": 256, "learning_starts": 256, "train_freq": 1, "gradient_steps": -1, "buffer_size": 100000,
       "policy_kwargs": {"net_arch": [256, 256]}}
CASES = {
    "PPO, CartPole": ("cartpole_ppo_ddp", [*TWO, *HEADS], 400, 4000,
                      "PPO", "CartPole-v1", 16, {**PPO, "n_steps": 32, "n_epochs": 2, "ent_coef": 0.01}, 16 * 32 * 20),
    "PPO, Pendulum": ("pendulum_ppo", [*TWO, *HEADS], 400, 4000,
                      "PPO", "Pendulum-v1", 16, {**PPO, "n_steps": 64, "n_epochs": 10}, 16 * 64 * 10),
    "DQN, CartPole": ("cartpole_dqn_ddp", [*TWO, "policy.model.dueling=false"], 1000, 10000,
                      "DQN", "CartPole-v1", 16, {"batch_size": 128, "train_freq": 1, "gradient_steps": 5, "gamma": 0.97,
                                                 "learning_starts": 256, "buffer_size": 40000,
                                                 "policy_kwargs": {"net_arch": [128, 128, 64]}}, 16 * 200),
    "SAC, Pendulum": ("pendulum_sac", ["runtime.workers=2"], 1200, 2000,
                      "SAC", "Pendulum-v1", 4, SAC, 1000),
}


def heddle(options, strategy, config, settings, warm, updates):
    settings = [*settings, "env.stop_value=1e9", "max_env_step=1000000000"]
    return train(options, f"configs/{config}.yaml", strategy, updates, warm, settings)["env_steps_per_s"]["median"]


def run(options):
    for case, (config, settings, warm, updates, algorithm, env, envs, arguments, steps) in CASES.items():
        contenders = {f"{OURS} {strategy}": functools.partial(heddle, options, strategy, config, settings, warm, updates)
                      for strategy in ("serial", "pipelined")}
        with contextlib.ExitStack() as workers:
            for threads in (1, 2):
                worker = workers.enter_context(
                    Worker([0, 1], "classic_sb3.py", algorithm, env, envs, threads, json.dumps(arguments)))
                worker.ask(steps=steps // 4)
                contenders[f"Stable-Baselines3, {threads} threads"] = functools.partial(worker.ask, steps=steps)
            report(options, f"classic: {case}, 2 cores", "env steps/s", contenders)
