/* SPDX-License-Identifier: Apache-2.0 */
/* Generalised advantage estimation (Schulman et al. 2016; spec 3.4). Thread safe. */
#ifndef HD_KERNELS_GAE_H
#define HD_KERNELS_GAE_H

#include <stdint.h>

struct hd_gae {
    int64_t n; /* samples, in order of time within each chunk, chunk after chunk */
    float gamma, lambda;
    const float *value, *next_value; /* [n] of the sample's observation and of the one after it */
    const float *reward;             /* [n] */
    const float *done;               /* [n] 1: next_obs is terminal, its value counts nothing */
    const float *end;                /* [n] 1: the chunk ends here, or the episode does */
};

/* advantage[n], from the last sample to the first: A = r + gamma next_value (1 - done) - value +
 * gamma lambda (1 - end) A of the sample after it. */
void hd_gae(const struct hd_gae *gae, float *advantage);

#endif
