/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/losses/dqn_loss_internal.h"

void hd_dqn_loss_compute(const struct hd_dqn_loss *loss, float *dq, float *td2,
                         struct hd_dqn_sums *sums_p)
{
    struct hd_dqn_sums sums = {0};
    for (int64_t b = 0; b < loss->batch; b++) {
        const float square = hd_dqn_add_row(loss, b, dq + b * loss->actions, &sums);
        if (td2)
            td2[b] = square;
    }
    *sums_p = sums;
}
