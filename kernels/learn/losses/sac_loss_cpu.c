/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/losses/sac_loss_internal.h"

void hd_sac_draw_actions(const struct hd_sac_draw *draw, float *joined, float *log_prob,
                         struct hd_squashed *drawn)
{
    for (int64_t r = 0; r < draw->rows; r++)
        hd_sac_draw_row(draw, r, joined, log_prob, drawn);
}

void hd_sac_compute_targets(const struct hd_sac_targets *t, float *y)
{
    for (int64_t r = 0; r < t->rows; r++)
        y[r] = hd_sac_compute_target(t, t->alpha, r);
}

void hd_sac_critic_compute(int64_t rows, const float *q, const float *y, float *dq,
                           struct hd_sac_critic_sums *sums_p)
{
    *sums_p = (struct hd_sac_critic_sums){0};
    for (int64_t r = 0; r < rows; r++)
        hd_sac_critic_add_row(q[r], y[r], &dq[r], sums_p);
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
    *sums_p = (struct hd_sac_sums){.alpha = loss->alpha};
    for (int64_t r = 0; r < loss->rows; r++)
        hd_sac_add_row(loss, loss->alpha, r, dout + r * 2 * loss->dims, sums_p);
}
