/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gae.h"

void hd_gae(const struct hd_gae *gae, float *advantage)
{
    const float decay = gae->gamma * gae->lambda;
    float next = 0;
    for (int64_t t = gae->n - 1; t >= 0; t--) {
        float bootstrap = gae->gamma * gae->next_value[t] * (1 - gae->done[t]);
        float delta = gae->reward[t] + bootstrap - gae->value[t];
        advantage[t] = next = delta + decay * (1 - gae->end[t]) * next;
    }
}
