/* SPDX-License-Identifier: Apache-2.0 */
/* CartPole-v0 of gym 0.25.1, equal to the bit (docs/di-engine.md 7.3): a pole on a cart, pushed
 * left (action 0) or right (action 1) every 0.02 s. An episode ends when cart or pole leave their
 * range, or after 200 steps; every step has a reward of 1. Threads as in kernels/envs/env.h. */
#ifndef HD_KERNELS_ENVS_CARTPOLE_CARTPOLE_H
#define HD_KERNELS_ENVS_CARTPOLE_CARTPOLE_H

#include "kernels/envs/env.h"

enum { HD_CARTPOLE_STATES = 4, HD_CARTPOLE_MAX_STEPS = 200 };

extern const struct hd_env hd_env_cartpole;

/* Copies the state of one env in full precision: x (m), x' (m/s), theta (rad), theta' (rad/s). */
void hd_cartpole_get_state(const void *group, int64_t env, double state[HD_CARTPOLE_STATES]);

#endif
