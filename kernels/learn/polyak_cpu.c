/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/polyak.h"

void hd_polyak_move(float share, int64_t n, const float *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = share * from[i] + (1 - share) * to[i];
}
