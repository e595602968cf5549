/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11). A draw is a pure function of (seed, stream) and (shard, iteration, trip, item),
 * so nothing random depends on ranks, workers or the order of execution. Thread safe. */
#ifndef HD_RUNTIME_BASE_RNG_H
#define HD_RUNTIME_BASE_RNG_H

#include <stdint.h>

/* Where draws come from; `item` is the caller's index into it. */
struct hd_rng {
    uint32_t key[2];
    uint32_t shard, iteration, trip;
};

/* The generator of one (seed, stream) at one place in program order. */
struct hd_rng hd_rng_make(uint64_t seed, uint64_t stream, int64_t shard, int64_t iteration,
                          int64_t trip);

/* The raw block function: out[4] from counter[4] and key[2]. */
void hd_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Four 32-bit words of item `item`. */
void hd_rng_words(const struct hd_rng *rng, uint32_t item, uint32_t out[4]);

/* 64 random bits of item `item`. */
uint64_t hd_rng_u64(const struct hd_rng *rng, uint32_t item);

/* Uniform in [0, 1), 53 bits, of item `item`. */
double hd_rng_uniform(const struct hd_rng *rng, uint32_t item);

/* Uniform integer in [0, n) of item `item`, n > 0 (multiply-shift of 64 bits; bias < n / 2^64). */
int64_t hd_rng_below(const struct hd_rng *rng, uint32_t item, int64_t n);

#endif
