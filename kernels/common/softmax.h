/* SPDX-License-Identifier: Apache-2.0 */
/* Probabilities of a row of logits, which CPUs and GPUs share. */
#ifndef HD_KERNELS_COMMON_SOFTMAX_H
#define HD_KERNELS_COMMON_SOFTMAX_H

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

/* log p of a logit is logit - most - log_sum. */
struct hd_softmax {
    float most, log_sum;
};

/* Of logit[n], n >= 1. */
HD_INLINE struct hd_softmax hd_softmax_of(const float *logit, int64_t n)
{
    struct hd_softmax softmax;
    float most = logit[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = logit[i] > most ? logit[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += expf(logit[i] - most);
    softmax.most = most;
    softmax.log_sum = logf(sum);
    return softmax;
}

/* log p of one of them. */
HD_INLINE float hd_softmax_log(const struct hd_softmax *softmax, float logit)
{
    return logit - softmax->most - softmax->log_sum;
}

/* hd_log_softmax. */
HD_INLINE float hd_log_softmax_one(const float *logit, int64_t n, float *log_p)
{
    const struct hd_softmax softmax = hd_softmax_of(logit, n);
    float entropy = 0;
    for (int64_t i = 0; i < n; i++) {
        log_p[i] = hd_softmax_log(&softmax, logit[i]);
        entropy -= expf(log_p[i]) * log_p[i];
    }
    return entropy;
}

#endif
