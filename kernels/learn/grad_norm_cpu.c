/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/grad_norm.h"

/* Sums are LANES independent chains, so that vector and scalar code give the same bits. */
enum { LANES = 16 };

double hd_grad_norm_sum_squares(const float *x, int64_t n)
{
    double chains[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            chains[l] += (double)x[i + l] * x[i + l];
    for (; i < n; i++)
        chains[i % LANES] += (double)x[i] * x[i];
    for (int l = 0; l < LANES; l++)
        sum += chains[l];
    return sum;
}
