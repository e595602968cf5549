/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/argmax.h"
#include "kernels/learn/losses/dqn_loss_internal.h"
#include "kernels/learn/losses/qrdqn_loss.h"

/* Returns what quantile number i, which is q, has of the loss, and its derivative by q. */
static float add_quantile(const float *next, float reward, float factor, int64_t n, int64_t i,
                          float q, float *slope_p)
{
    const float tau = ((float)i + 0.5f) / (float)n;
    float loss = 0, slope = 0;
    for (int64_t j = 0; j < n; j++) {
        const float error = reward + factor * next[j] - q, size = fabsf(error);
        const float weight = error < 0 ? 1 - tau : tau;
        loss += weight * (size < 1 ? 0.5f * error * error : size - 0.5f);
        slope -= weight * (size < 1 ? error : copysignf(1, error));
    }
    *slope_p = slope / (float)n;
    return loss / (float)n;
}

static float add_row(const struct hd_qrdqn_loss *l, int64_t b, float *dq, struct hd_dqn_sums *sums)
{
    const struct hd_dqn_loss *rows = &l->rows;
    const int64_t n = l->quantiles, width = rows->actions * n, at = rows->action[b] * n;
    const float *q = rows->q + b * width, *target = rows->target_next + b * width;
    const int64_t best = hd_argmax_sum(rows->online_next + b * width, rows->actions, n);
    const float importance = rows->importance ? rows->importance[b] : 1;
    float factor, loss = 0;
    const float reward = hd_dqn_add_rewards(rows, b, &factor);
    factor *= 1 - rows->done[b];
    for (int64_t k = 0; k < width; k++) {
        dq[k] = 0;
        sums->q += q[k];
        sums->target_q += target[k];
    }
    for (int64_t i = 0; i < n; i++) {
        loss += add_quantile(target + best * n, reward, factor, n, i, q[at + i], &dq[at + i]);
        dq[at + i] *= importance;
    }
    sums->loss += importance * loss;
    return loss;
}

void hd_qrdqn_loss_compute(const struct hd_qrdqn_loss *loss, float *dq, float *td,
                           struct hd_dqn_sums *sums_p)
{
    struct hd_dqn_sums sums = {0};
    const int64_t width = loss->rows.actions * loss->quantiles;
    for (int64_t b = 0; b < loss->rows.batch; b++) {
        const float row = add_row(loss, b, dq + b * width, &sums);
        if (td)
            td[b] = row;
    }
    *sums_p = sums;
}
