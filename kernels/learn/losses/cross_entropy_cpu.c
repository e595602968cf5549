/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/losses/cross_entropy_internal.h"

void hd_cross_entropy_compute(const struct hd_cross_entropy *loss, float *dlogit,
                              struct hd_cross_entropy_sums *sums_p)
{
    struct hd_cross_entropy_sums sums = {0};
    for (int64_t b = 0; b < loss->batch; b++)
        hd_cross_entropy_add_row(loss, b, dlogit + b * loss->actions, &sums);
    *sums_p = sums;
}
