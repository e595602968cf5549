/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/gae.h"

void hd_gae_compute(const struct hd_gae *gae, float *advantage)
{
    const float decay = gae->gamma * gae->lambda;
    float next = 0;
    for (int64_t t = gae->n - 1; t >= 0; t--) {
        if (gae->end[t] != 0)
            next = 0;
        advantage[t] = next = hd_gae_compute_td_error(gae, t) + decay * next;
    }
}
