/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/normal.h"
#include "kernels/learn/losses/sac_loss.h"

#include <string.h>

void hd_sac_draw_actions(const struct hd_sac_draw *draw, float *joined, float *log_prob,
                         struct hd_squashed *drawn)
{
    const int64_t dims = draw->dims, obs = draw->obs;
    for (int64_t r = 0; r < draw->rows; r++) {
        const float *out = draw->out + r * 2 * dims;
        float *row = joined + r * (obs + dims);
        memcpy(row, draw->obs_rows + r * obs, (size_t)obs * sizeof *row);
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
}

void hd_sac_compute_targets(const struct hd_sac_targets *t, float *y)
{
    for (int64_t r = 0; r < t->rows; r++) {
        const float q = t->q1[r] <= t->q2[r] ? t->q1[r] : t->q2[r];
        float reward = 0, factor = 1;
        for (int64_t j = 0; j < t->nstep; j++) {
            reward += factor * t->reward[j * t->ld_reward + r];
            factor *= t->gamma;
        }
        if (t->value_gamma)
            factor = t->value_gamma[r];
        y[r] = reward + factor * (1 - t->done[r]) * (q - t->alpha * t->log_prob[r]);
    }
}

void hd_sac_critic_compute(int64_t rows, const float *q, const float *y, float *dq,
                           struct hd_sac_critic_sums *sums_p)
{
    *sums_p = (struct hd_sac_critic_sums){0};
    for (int64_t r = 0; r < rows; r++) {
        const float error = q[r] - y[r];
        dq[r] = 2 * error;
        sums_p->loss += error * error;
        sums_p->q += q[r];
        sums_p->target += y[r];
    }
}

void hd_sac_choose_critic(int64_t rows, const float *q1, const float *q2, float *dq1, float *dq2)
{
    for (int64_t r = 0; r < rows; r++) {
        dq1[r] = q1[r] <= q2[r] ? 1 : 0;
        dq2[r] = 1 - dq1[r];
    }
}

void hd_sac_loss_compute(const struct hd_sac_loss *loss, float *dout, struct hd_sac_sums *sums_p)
{
    const int64_t dims = loss->dims, obs = loss->obs;
    *sums_p = (struct hd_sac_sums){0};
    for (int64_t r = 0; r < loss->rows; r++) {
        const float *by1 = loss->by_input1 + r * (obs + dims) + obs;
        const float *by2 = loss->by_input2 + r * (obs + dims) + obs;
        const float q = loss->q1[r] <= loss->q2[r] ? loss->q1[r] : loss->q2[r];
        float *d = dout + r * 2 * dims;
        for (int64_t i = 0; i < dims; i++) {
            const struct hd_squashed *drawn = &loss->drawn[r * dims + i];
            const float by_action = by1[i] + by2[i];
            d[i] = loss->alpha * drawn->by_log_prob.mean - by_action * drawn->by_action.mean;
            d[dims + i] =
                loss->alpha * drawn->by_log_prob.log_std - by_action * drawn->by_action.log_std;
        }
        sums_p->loss += loss->alpha * loss->log_prob[r] - q;
        sums_p->log_prob += loss->log_prob[r];
    }
}
