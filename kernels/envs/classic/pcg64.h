/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's default generator to the bit, for envs that must start like gym's: PCG64 (O'Neill, "PCG",
 * 2014: pcg64_xsl_rr) seeded through numpy's SeedSequence. All other random numbers come from
 * runtime/base/rng.h. Thread safe on different generators. */
#pragma once

#include <stdint.h>

struct hd_pcg64 {
    unsigned __int128 state, increment;
};

/* Returns numpy.random.Generator(PCG64(SeedSequence(seed))). */
struct hd_pcg64 hd_pcg64_make(uint64_t seed);

/* Returns the next 64 random bits. */
uint64_t hd_pcg64_next(struct hd_pcg64 *rng);

/* Returns Generator.uniform(low, high): a number in [low, high). */
double hd_pcg64_uniform(struct hd_pcg64 *rng, double low, double high);
