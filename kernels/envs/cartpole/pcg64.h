/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's default generator to the bit, for envs that must start as gym's do: PCG64 (O'Neill,
 * "PCG", 2014: pcg64_xsl_rr) seeded through numpy's SeedSequence. Not for anything else: draws of
 * the training itself come from runtime/base/rng.h. */
#ifndef HD_KERNELS_ENVS_CARTPOLE_PCG64_H
#define HD_KERNELS_ENVS_CARTPOLE_PCG64_H

#include <stdint.h>

struct hd_pcg64 {
    unsigned __int128 state, increment;
};

/* numpy.random.Generator(PCG64(SeedSequence(seed))). */
struct hd_pcg64 hd_pcg64_make(uint64_t seed);

/* The next 64 random bits. */
uint64_t hd_pcg64_next(struct hd_pcg64 *rng);

/* Generator.uniform(low, high): in [low, high). */
double hd_pcg64_uniform(struct hd_pcg64 *rng, double low, double high);

#endif
