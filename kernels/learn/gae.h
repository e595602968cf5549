/* SPDX-License-Identifier: Apache-2.0 */
/* Generalised advantage estimation (Schulman et al. 2016; docs/di-engine.md 3.4). Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <stdint.h>

struct hd_gae {
    int64_t n; /* samples, in order of time within each fragment, fragment after fragment */
    float gamma, lambda;
    const float *value,
        *next_value;     /* [n]: values of the sample's observation and of the next one */
    const float *reward; /* [n] */
    const float *done;   /* [n]: 1 if next_obs is terminal, so that its value does not count */
    const float *end;    /* [n]: 1 if the fragment or the episode ends here */
};

/* Returns the one-step error of sample t: r + gamma next_value (1 - done) - value. */
HD_INLINE float hd_gae_compute_td_error(const struct hd_gae *gae, int64_t t)
{
    const float bootstrap = gae->gamma * gae->next_value[t] * (1 - gae->done[t]);
    return gae->reward[t] + bootstrap - gae->value[t];
}

/* Computes advantage[n] from the last sample to the first: A = error + gamma lambda A', where A' is
 * the advantage of the sample after it, or 0 where `end` is 1. */
void hd_gae_compute(const struct hd_gae *gae, float *advantage);

/* Computes the same bits on a GPU, with all arrays in device memory and a thread for each fragment.
 * Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_gae_compute_cuda(const struct hd_gae *gae, float *advantage, void *stream);
