/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adam.h"

#include <math.h>

struct hd_adam hd_adam_default(double learning_rate)
{
    return (struct hd_adam){learning_rate, 0.9, 0.999, 1e-8};
}

void hd_adam_step(const struct hd_adam *adam, int64_t t, int64_t n, const float *restrict grad,
                  float *restrict m, float *restrict v, float *restrict params)
{
    /* Scalars in double, then rounded once, as PyTorch does. */
    const float step = (float)(adam->learning_rate / (1 - pow(adam->beta1, (double)t)));
    const float root = (float)sqrt(1 - pow(adam->beta2, (double)t));
    const float b1 = (float)adam->beta1, c1 = (float)(1 - adam->beta1);
    const float b2 = (float)adam->beta2, c2 = (float)(1 - adam->beta2);
    const float epsilon = (float)adam->epsilon;
    for (int64_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + c1 * grad[i];
        v[i] = b2 * v[i] + c2 * grad[i] * grad[i];
        params[i] -= step * (m[i] / (sqrtf(v[i]) / root + epsilon));
    }
}
