/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of soft actor-critic for one row, shared by CPUs and GPUs. Thread safe. */
#pragma once

#include "kernels/common/normal.h"
#include "kernels/learn/losses/sac_loss.h"
#include "runtime/base/inline.h"

/* Writes row r of what is drawn: the observation and its action, the log probability, and the
 * numbers if `drawn` is not NULL. */
HD_INLINE void hd_sac_draw_row(const struct hd_sac_draw *draw, int64_t r, float *joined,
                               float *log_prob, struct hd_squashed *drawn)
{
    const int64_t dims = draw->dims, obs = draw->obs;
    const float *out = draw->out + r * 2 * dims;
    float *row = joined + r * (obs + dims);
    for (int64_t i = 0; i < obs; i++)
        row[i] = draw->obs_rows[r * obs + i];
    log_prob[r] = 0;
    for (int64_t d = 0; d < dims; d++) {
        const double noise = hd_normal_draw(draw->rng, draw->first + (uint32_t)(r * dims + d));
        const struct hd_squashed one = hd_squashed_draw(out[d], out[dims + d], noise);
        row[obs + d] = one.action;
        log_prob[r] += one.log_prob;
        if (drawn)
            drawn[r * dims + d] = one;
    }
}

/* Returns the target of row r. */
HD_INLINE float hd_sac_compute_target(const struct hd_sac_targets *t, float alpha, int64_t r)
{
    const float q = t->q1[r] <= t->q2[r] ? t->q1[r] : t->q2[r];
    float reward = 0, factor = 1;
    for (int64_t j = 0; j < t->nstep; j++) {
        reward += factor * t->reward[j * t->ld_reward + r];
        factor *= t->gamma;
    }
    if (t->value_gamma)
        factor = t->value_gamma[r];
    return reward + factor * (1 - t->done[r]) * (q - alpha * t->log_prob[r]);
}

/* Writes the derivative by q of a row's squared error and adds to the sums. */
HD_INLINE void hd_sac_critic_add_row(float q, float y, float *dq, struct hd_sac_critic_sums *sums)
{
    const float error = q - y;
    *dq = 2 * error;
    sums->loss += error * error;
    sums->q += q;
    sums->target += y;
}

/* Writes dout[2 dims] of row r and adds to the sums. */
HD_INLINE void hd_sac_add_row(const struct hd_sac_loss *loss, float alpha, int64_t r, float *dout,
                              struct hd_sac_sums *sums)
{
    const int64_t dims = loss->dims;
    const float *by1 = loss->by_input1 + r * loss->ld_by_input + loss->obs;
    const float *by2 = loss->by_input2 + r * loss->ld_by_input + loss->obs;
    const float q = loss->q1[r] <= loss->q2[r] ? loss->q1[r] : loss->q2[r];
    for (int64_t i = 0; i < dims; i++) {
        const struct hd_squashed *drawn = &loss->drawn[r * dims + i];
        const float by_action = by1[i] + by2[i];
        dout[i] = alpha * drawn->by_log_prob.mean - by_action * drawn->by_action.mean;
        dout[dims + i] = alpha * drawn->by_log_prob.log_std - by_action * drawn->by_action.log_std;
    }
    sums->loss += alpha * loss->log_prob[r] - q;
    sums->log_prob += loss->log_prob[r];
}
