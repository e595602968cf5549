/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/rng.h"

#include "runtime/base/hash.h"

struct hd_rng hd_rng_make(uint64_t seed, uint64_t stream, int64_t shard, int64_t iteration,
                          int64_t trip)
{
    uint64_t key = hd_hash_mix(seed, stream);
    return (struct hd_rng){.key = {(uint32_t)key, (uint32_t)(key >> 32)},
                           .shard = (uint32_t)shard,
                           .iteration = (uint32_t)iteration,
                           .trip = (uint32_t)trip};
}

void hd_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
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

void hd_rng_words(const struct hd_rng *rng, uint32_t item, uint32_t out[4])
{
    const uint32_t counter[4] = {item, rng->trip, rng->iteration, rng->shard};
    hd_philox4x32(counter, rng->key, out);
}

uint64_t hd_rng_u64(const struct hd_rng *rng, uint32_t item)
{
    uint32_t words[4];
    hd_rng_words(rng, item, words);
    return (uint64_t)words[1] << 32 | words[0];
}

double hd_rng_uniform(const struct hd_rng *rng, uint32_t item)
{
    return (double)(hd_rng_u64(rng, item) >> 11) * 0x1p-53;
}

int64_t hd_rng_below(const struct hd_rng *rng, uint32_t item, int64_t n)
{
    return (int64_t)((unsigned __int128)hd_rng_u64(rng, item) * (uint64_t)n >> 64);
}
