# SPDX-License-Identifier: Apache-2.0
"""A worker that steps vectors of Pong: {library, envs, seconds} -> agent steps per second of CPU time."""

import time

import numpy as np

from worker import serve

made = {}


def make(library, envs):
    if library == "envpool":
        import envpool
        return envpool.make("Pong-v5", env_type="gymnasium", num_envs=envs, num_threads=1, seed=0,
                            stack_num=4, frame_skip=4, noop_max=30, episodic_life=True,
                            reward_clip=True, repeat_action_probability=0.0)
    from ale_py.vector_env import AtariVectorEnv
    return AtariVectorEnv("pong", num_envs=envs, num_threads=1, noop_max=30, episodic_life=True,
                          repeat_action_probability=0.0)


def measure(request):
    key = (request["library"], request["envs"])
    if key not in made:
        made[key] = make(*key)
        made[key].reset()
    actions = np.random.default_rng(0).integers(0, 6, (256, request["envs"]), dtype=np.int32)
    steps, begin = 0, time.process_time()
    while time.process_time() < begin + request["seconds"]:
        for action in actions:
            made[key].step(action)
        steps += actions.size
    return steps / (time.process_time() - begin)


serve(measure)
