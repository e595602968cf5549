/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a greedy policy. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

/* Returns the index of the largest of q[n], n >= 1; the lowest one on ties. A NaN counts as the
 * largest, as in PyTorch. */
HD_INLINE int64_t hd_argmax(const float *q, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (q[i] > q[best] || (isnan(q[i]) && !isnan(q[best])))
            best = i;
    return best;
}

/* Returns the index of the group, of `each` numbers, of q[n][each] whose sum is the largest; the
 * lowest one on ties. A NaN is never the largest. */
HD_INLINE int64_t hd_argmax_sum(const float *q, int64_t n, int64_t each)
{
    int64_t best = 0;
    double largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < each; j++)
            sum += (double)q[i * each + j];
        if (sum > largest) {
            largest = sum;
            best = i;
        }
    }
    return best;
}
