/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cross_entropy.h"
#include "kernels/dqn_loss.h"
#include "kernels/ppo_loss.h"

#include <math.h>

void hd_cross_entropy(const struct hd_cross_entropy *loss, float *dlogit,
                      struct hd_cross_entropy_sums *sums_p)
{
    struct hd_cross_entropy_sums sums = {0};
    const int64_t n = loss->actions;
    for (int64_t b = 0; b < loss->batch; b++) {
        const float *logit = loss->logit + b * n;
        float *d = dlogit + b * n;
        hd_log_softmax(logit, n, d);
        const double error = -(double)d[loss->action[b]], weight = (double)loss->weight[b];
        for (int64_t a = 0; a < n; a++)
            d[a] = expf(d[a]) - (float)(a == loss->action[b]);
        sums.loss += error;
        sums.weight += weight;
        sums.weighted_loss += weight * error;
        sums.weighted_hits += weight * (double)(hd_argmax(logit, n) == loss->action[b]);
    }
    *sums_p = sums;
}
