#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/classic_traces.h: what Gymnasium's envs of classic control do in 1,000 steps.

Usage: regen_classic.py > tests/golden/classic_traces.h
Needs gymnasium==1.4.0 and numpy==2.4.6: with NumPy 1, Python's numbers make single precision double.

Every twentieth step is kept, and the first and last of each episode, with the states before and after
it. Actions push where the env moves, one in four at random; those of a box are now and then beyond it.
"""
import numpy as np
import gymnasium

SEED, STEPS, EVERY = 7, 1000, 20
# Type, name there, number of choices, and the velocity by which actions go.
ENVS = [("cartpole", "CartPole-v0", 2, 3), ("acrobot", "Acrobot-v1", 3, 3),
        ("mountain_car", "MountainCar-v0", 3, 1),
        ("mountain_car_continuous", "MountainCarContinuous-v0", 0, 1), ("pendulum", "Pendulum-v1", 0, 1)]

HEAD = f"""/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of Gymnasium {gymnasium.__version__}'s envs with NumPy {np.__version__}. Written by regen_classic.py. */
#ifndef HD_TESTS_GOLDEN_CLASSIC_TRACES_H
#define HD_TESTS_GOLDEN_CLASSIC_TRACES_H

#include <stdbool.h>

enum {{ CLASSIC_SEED = {SEED}, CLASSIC_STEPS = {STEPS} }};

/* Step `step` of the trace, which is step `age` of its episode, both from 0. */
struct classic_row {{
    int step, age;
    double action, before[4], after[4];
    float obs[6], reward;
    bool terminated, truncated;
}};

/* The start of episode i is that of seed CLASSIC_SEED + i. */
struct classic_trace {{
    const char *name;
    int states, shown, n_rows;
    double start[2][4];
    const struct classic_row *rows;
}};

/* clang-format off */"""


def fill(key, t):
    mask = (1 << 64) - 1
    z = ((key << 32) + t + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return ((z ^ z >> 31) >> 40) / 2.0**24


def numbers(values):
    return "{" + ", ".join(float(value).hex() for value in values) + "}"


def act(env, choices, velocity, t):
    u = fill(SEED, t)
    right = env.unwrapped.state[velocity] >= 0
    if choices:
        return int(choices * 4 * u) if u < 0.25 else (choices - 1) * int(right)
    push = 4 * u - 0.5 if u < 0.25 else 1.5 * u - 0.25
    return np.array([env.action_space.high[0] * (push if right else -push)], np.float32)


def trace(name, env_id, choices, velocity):
    env = gymnasium.make(env_id, disable_env_checker=True)
    episode, age, rows = 0, 0, []
    starts = [numbers((env.reset(seed=SEED + i), env.unwrapped.state)[1]) for i in range(2)]
    env.reset(seed=SEED)
    for t in range(STEPS):
        action = act(env, choices, velocity, t)
        before = np.array(env.unwrapped.state, np.float64)
        obs, reward, terminated, truncated, _ = env.step(action)
        if t % EVERY == 0 or age == 0 or terminated or truncated:
            number = float(action if choices else action[0])
            rows.append(f"    {{{t}, {age}, {number.hex()}, {numbers(before)}, {numbers(env.unwrapped.state)}, "
                        f"{numbers(obs)}, {float(np.float32(reward)).hex()}, {int(terminated)}, "
                        f"{int(truncated and not terminated)}}},")
        age += 1
        if terminated or truncated:
            episode, age = episode + 1, 0
            env.reset(seed=SEED + episode)
    print(f"static const struct classic_row rows_{name}[] = {{")
    print("\n".join(rows))
    print("};")
    return (f'    {{"{name}", {len(env.unwrapped.state)}, {len(obs)}, {len(rows)}, '
            f"{{{', '.join(starts)}}}, rows_{name}}},")


def main():
    print(HEAD)
    heads = [trace(*env) for env in ENVS]
    print("static const struct classic_trace classic_traces[] = {")
    print("\n".join(heads))
    print("};\n/* clang-format on */\n\n#endif")


main()
