/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of classic control with which the field begins: small physics whose states are a few
 * doubles. An env starts as Gymnasium's from the same seed, steps as it does, and is truncated
 * after as many steps. CartPole is gym 0.25.1's CartPole-v0 to the bit (docs/di-engine.md 7.3); the
 * others are Gymnasium 1.4's with NumPy 2, from equal states to one unit in the last place of the
 * numbers added, as sine and cosine of the C library and NumPy may differ. Threads as in
 * kernels/envs/env.h. */
#pragma once

#include "kernels/envs/env.h"

/* A pole on a cart, pushed left (action 0) or right (1); a reward of 1 for each of up to 200 steps,
 * with the env_id CartPole-v1 up to 500. env.options: `velocities: false` shows only the positions
 * of cart and pole, not their velocities. */
extern const struct hd_env hd_env_cartpole;

/* Two links that swing up by torque -1, 0 or 1 at their joint; a reward of -1 for each of up to 500
 * steps. */
extern const struct hd_env hd_env_acrobot;

/* A car in a valley, too weak for the hill on the right: pushed left, not or right with a reward of
 * -1 for each of up to 200 steps; or pushed by a number from -1 to 1 with a reward of 100 at the
 * goal, less a tenth of the square of each push, in up to 999 steps. */
extern const struct hd_env hd_env_mountain_car;
extern const struct hd_env hd_env_mountain_car_continuous;

/* A pendulum that a torque from -2 to 2 is to hold upright for 200 steps. */
extern const struct hd_env hd_env_pendulum;
