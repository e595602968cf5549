/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11). A draw is a pure function of (seed, stream) and (shard, iteration,
 * repeat_index, item), so nothing random depends on ranks, workers, processors or the order of
 * execution. Thread safe.
 */
#pragma once

#include "runtime/base/hash.h"
#include "runtime/base/inline.h"

#include <stdint.h>

/* A generator; every draw from it has an index, `item`, that the caller chooses. */
struct hd_rng {
    uint32_t key[2];
    uint32_t shard, iteration, repeat_index;
};

/* Returns the generator of one (seed, stream) in one shard, iteration and repeat. */
HD_INLINE struct hd_rng hd_rng_make(uint64_t seed, uint64_t stream, int64_t shard,
                                    int64_t iteration, int64_t repeat_index)
{
    const uint64_t key = hd_hash_mix(seed, stream);
    const struct hd_rng rng = {.key = {(uint32_t)key, (uint32_t)(key >> 32)},
                               .shard = (uint32_t)shard,
                               .iteration = (uint32_t)iteration,
                               .repeat_index = (uint32_t)repeat_index};
    return rng;
}

/* Computes the block function of Philox 4x32-10: out[4] from counter[4] and key[2]. */
HD_INLINE void hd_philox4x32_generate(const uint32_t counter[4], const uint32_t key[2],
                                      uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Draws the four 32-bit words of an item. */
HD_INLINE void hd_rng_draw_words(const struct hd_rng *rng, uint32_t item, uint32_t out[4])
{
    const uint32_t counter[4] = {item, rng->repeat_index, rng->iteration, rng->shard};
    hd_philox4x32_generate(counter, rng->key, out);
}

/* Returns the 64 random bits of an item. */
HD_INLINE uint64_t hd_rng_draw_u64(const struct hd_rng *rng, uint32_t item)
{
    uint32_t words[4];
    hd_rng_draw_words(rng, item, words);
    return (uint64_t)words[1] << 32 | words[0];
}

/* Returns the item's number, uniform in [0, 1), of 53 bits. */
HD_INLINE double hd_rng_draw_uniform(const struct hd_rng *rng, uint32_t item)
{
    return (double)(hd_rng_draw_u64(rng, item) >> 11) * 0x1p-53;
}

/* Returns the item's integer, uniform in [0, n), n > 0 (multiply-shift of 64 bits; its bias is
 * below n / 2^64). */
HD_INLINE int64_t hd_rng_draw_below(const struct hd_rng *rng, uint32_t item, int64_t n)
{
    return (int64_t)((unsigned __int128)hd_rng_draw_u64(rng, item) * (uint64_t)n >> 64);
}
