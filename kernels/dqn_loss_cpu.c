/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dqn_loss.h"

#include <math.h>

int64_t hd_argmax(const float *q, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (q[i] > q[best] || (isnan(q[i]) && !isnan(q[best])))
            best = i;
    return best;
}

/* y of row b. */
static float target(const struct hd_dqn_loss *l, int64_t b)
{
    float reward = 0, factor = 1;
    for (int64_t j = 0; j < l->nstep; j++) {
        reward += factor * l->reward[j * l->ld_reward + b];
        factor *= l->gamma;
    }
    if (l->value_gamma)
        factor = l->value_gamma[b];
    int64_t action = hd_argmax(l->online_next + b * l->actions, l->actions);
    return reward + factor * l->target_next[b * l->actions + action] * (1 - l->done[b]);
}

void hd_dqn_loss(const struct hd_dqn_loss *loss, float *dq, float *td2, struct hd_dqn_sums *sums_p)
{
    struct hd_dqn_sums sums = {0};
    for (int64_t b = 0; b < loss->batch; b++) {
        const float *q = loss->q + b * loss->actions;
        float error = q[loss->action[b]] - target(loss, b);
        for (int64_t a = 0; a < loss->actions; a++) {
            dq[b * loss->actions + a] = a == loss->action[b] ? 2 * error : 0;
            sums.q += q[a];
            sums.target_q += loss->target_next[b * loss->actions + a];
        }
        if (td2)
            td2[b] = error * error;
        sums.loss += error * error;
    }
    *sums_p = sums;
}
