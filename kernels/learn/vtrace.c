/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/vtrace.h"

#include <math.h>

void hd_vtrace_compute(const struct hd_vtrace *vtrace, float *correction, float *advantage)
{
    const struct hd_gae *samples = &vtrace->samples;
    const float decay = samples->gamma * samples->lambda;
    float next = 0;
    for (int64_t t = samples->n - 1; t >= 0; t--) {
        const float ratio = expf(vtrace->log_ratio[t]);
        const float rho = fminf(vtrace->rho_max, ratio), c = fminf(vtrace->c_max, ratio);
        const float error = hd_gae_compute_td_error(samples, t);
        if (samples->end[t] != 0)
            next = 0;
        advantage[t] = rho * (error + samples->gamma * next);
        correction[t] = next = rho * error + decay * c * next;
    }
}
