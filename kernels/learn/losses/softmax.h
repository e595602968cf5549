/* SPDX-License-Identifier: Apache-2.0 */
/* Probabilities of a row of logits, shared by CPUs and GPUs. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

/* The logarithm of a logit's probability is logit - max_logit - log_sum. */
struct hd_softmax {
    float max_logit, log_sum;
};

/* Computes the softmax of logit[n], n >= 1. */
HD_INLINE struct hd_softmax hd_softmax_compute(const float *logit, int64_t n)
{
    struct hd_softmax softmax;
    float max_logit = logit[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        max_logit = logit[i] > max_logit ? logit[i] : max_logit;
    for (int64_t i = 0; i < n; i++)
        sum += expf(logit[i] - max_logit);
    softmax.max_logit = max_logit;
    softmax.log_sum = logf(sum);
    return softmax;
}

/* Returns the logarithm of a logit's probability. */
HD_INLINE float hd_softmax_get_log_prob(const struct hd_softmax *softmax, float logit)
{
    return logit - softmax->max_logit - softmax->log_sum;
}

/* Returns the logarithm of the ratio of logit i's probability among logit[n] to that among old[n].
 */
HD_INLINE float hd_softmax_compute_log_ratio(const float *logit, const float *old, int64_t n,
                                             int64_t i)
{
    const struct hd_softmax softmax = hd_softmax_compute(logit, n);
    const struct hd_softmax before = hd_softmax_compute(old, n);
    return hd_softmax_get_log_prob(&softmax, logit[i]) - hd_softmax_get_log_prob(&before, old[i]);
}

/* Writes the logarithms of all n probabilities to log_p[n] and returns the entropy of the
 * distribution. */
HD_INLINE float hd_softmax_compute_log_probs(const float *logit, int64_t n, float *log_p)
{
    const struct hd_softmax softmax = hd_softmax_compute(logit, n);
    float entropy = 0;
    for (int64_t i = 0; i < n; i++) {
        log_p[i] = hd_softmax_get_log_prob(&softmax, logit[i]);
        entropy -= expf(log_p[i]) * log_p[i];
    }
    return entropy;
}
