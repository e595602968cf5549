#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/classic_traces.json: what Gymnasium's envs of classic control do in 1,000 steps.

Usage: regen_classic.py > tests/golden/classic_traces.json
Needs gymnasium==1.4.0 and numpy==2.4.6: with NumPy 1, Python's numbers make single precision double.

Every twentieth step is kept, and the first and last of each episode, with the states before and after
it: step `step` of the trace, which is step `age` of its episode, both from 0. The start of episode i is
that of seed SEED + i. Actions push where the env moves, one in four at random; those of a box are now and then beyond it.
"""
import numpy as np
import gymnasium

import golden

SEED, STEPS, EVERY = 7, 1000, 20
# Type, name there, number of choices, and the velocity by which actions go.
ENVS = [("cartpole", "CartPole-v0", 2, 3), ("acrobot", "Acrobot-v1", 3, 3),
        ("mountain_car", "MountainCar-v0", 3, 1),
        ("mountain_car_continuous", "MountainCarContinuous-v0", 0, 1), ("pendulum", "Pendulum-v1", 0, 1)]


def floats(values):
    return [float(value) for value in values]


def act(env, choices, velocity, t):
    u = golden.fill(SEED, t)
    right = env.unwrapped.state[velocity] >= 0
    if choices:
        return int(choices * 4 * u) if u < 0.25 else (choices - 1) * int(right)
    push = 4 * u - 0.5 if u < 0.25 else 1.5 * u - 0.25
    return np.array([env.action_space.high[0] * (push if right else -push)], np.float32)


def trace(name, env_id, choices, velocity):
    env = gymnasium.make(env_id, disable_env_checker=True)
    episode, age, rows = 0, 0, []
    starts = [floats((env.reset(seed=SEED + i), env.unwrapped.state)[1]) for i in range(2)]
    env.reset(seed=SEED)
    for t in range(STEPS):
        action = act(env, choices, velocity, t)
        before = np.array(env.unwrapped.state, np.float64)
        obs, reward, terminated, truncated, _ = env.step(action)
        if t % EVERY == 0 or age == 0 or terminated or truncated:
            rows.append({"step": t, "age": age, "action": float(action if choices else action[0]),
                         "before": floats(before), "after": floats(env.unwrapped.state), "obs": floats(obs),
                         "reward": float(np.float32(reward)), "terminated": int(terminated),
                         "truncated": int(truncated and not terminated)})
        age += 1
        if terminated or truncated:
            episode, age = episode + 1, 0
            env.reset(seed=SEED + episode)
    return {"name": name, "start": starts, "rows": rows}


def main():
    golden.write(f"steps of Gymnasium {gymnasium.__version__}'s envs with NumPy {np.__version__}", seed=SEED,
                 traces=[trace(*env) for env in ENVS])


main()
