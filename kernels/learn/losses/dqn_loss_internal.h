/* SPDX-License-Identifier: Apache-2.0 */
/* The double-DQN loss of one row, shared by CPUs and GPUs. Thread safe. */
#pragma once

#include "kernels/common/argmax.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "runtime/base/inline.h"

#include <math.h>

/* Returns the discounted rewards of row b, and the factor of the bootstrap value. */
HD_INLINE float hd_dqn_add_rewards(const struct hd_dqn_loss *l, int64_t b, float *factor_p)
{
    float reward = 0, factor = 1;
    for (int64_t j = 0; j < l->nstep; j++) {
        reward += factor * l->reward[j * l->ld_reward + b];
        factor *= l->gamma;
    }
    *factor_p = l->value_gamma ? l->value_gamma[b] : factor;
    return reward;
}

/* Returns the target y of row b. */
HD_INLINE float hd_dqn_compute_target(const struct hd_dqn_loss *l, int64_t b)
{
    float factor;
    const float reward = hd_dqn_add_rewards(l, b, &factor);
    const int64_t action = hd_argmax(l->online_next + b * l->actions, l->actions);
    return reward + factor * l->target_next[b * l->actions + action] * (1 - l->done[b]);
}

/* Writes row b's derivative to dq[actions], adds its numbers to the sums, and returns (q[a] -
 * y)^2. Without importance, a factor of 1 leaves every bit. */
HD_INLINE float hd_dqn_add_row(const struct hd_dqn_loss *l, int64_t b, float *dq,
                               struct hd_dqn_sums *sums)
{
    const float *q = l->q + b * l->actions;
    const float error = q[l->action[b]] - hd_dqn_compute_target(l, b);
    const float importance = l->importance ? l->importance[b] : 1;
    for (int64_t a = 0; a < l->actions; a++) {
        dq[a] = a == l->action[b] ? importance * (2 * error) : 0;
        sums->q += q[a];
        sums->target_q += l->target_next[b * l->actions + a];
    }
    sums->loss += importance * (error * error);
    return error * error;
}
