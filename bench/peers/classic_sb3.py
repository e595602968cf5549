# SPDX-License-Identifier: Apache-2.0
"""usage: classic_sb3.py ALGORITHM ENV ENVS THREADS ARGUMENTS      answers {"steps": n} with env steps per second

Stable-Baselines3's own learner, net and vector of envs; ARGUMENTS are JSON, those of its constructor."""

import json
import sys
import time

import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env

from worker import serve


def main():
    algorithm, env, envs, threads, arguments = sys.argv[1:]
    torch.set_num_threads(int(threads))
    learner = getattr(stable_baselines3, algorithm)(
        "MlpPolicy", make_vec_env(env, int(envs), seed=0), device="cpu", seed=0, **json.loads(arguments))

    def answer(request):
        before, begin = learner.num_timesteps, time.perf_counter()
        learner.learn(request["steps"], reset_num_timesteps=False)
        return (learner.num_timesteps - before) / (time.perf_counter() - begin)

    serve(answer)


main()
