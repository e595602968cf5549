/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of one row, shared by CPUs and GPUs. Thread safe. */
#pragma once

#include "kernels/common/argmax.h"
#include "kernels/learn/losses/cross_entropy.h"
#include "kernels/learn/losses/softmax.h"

/* Writes row b's derivative to d[actions] and adds its numbers to the sums. */
HD_INLINE void hd_cross_entropy_add_row(const struct hd_cross_entropy *l, int64_t b, float *d,
                                        struct hd_cross_entropy_sums *sums)
{
    const int64_t n = l->actions;
    const float *logit = l->logit + b * n;
    hd_softmax_compute_log_probs(logit, n, d);
    const double error = -(double)d[l->action[b]], weight = (double)l->weight[b];
    for (int64_t a = 0; a < n; a++)
        d[a] = expf(d[a]) - (float)(a == l->action[b]);
    sums->loss += error;
    sums->weight += weight;
    sums->weighted_loss += weight * error;
    sums->weighted_hits += weight * (double)(hd_argmax(logit, n) == l->action[b]);
}
