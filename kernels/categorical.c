/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/categorical.h"

#include <math.h>

#define FLOOR 1e-8

int64_t hd_categorical(const float *logit, int64_t n, double u)
{
    double most = logit[0], sum = 0, below = 0;
    for (int64_t i = 1; i < n; i++)
        most = logit[i] > most ? logit[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logit[i] - most);
    const double total = 1 + (double)n * FLOOR;
    for (int64_t i = 0; i + 1 < n; i++) {
        below += exp((double)logit[i] - most) / sum + FLOOR;
        if (u * total < below)
            return i;
    }
    return n - 1;
}
