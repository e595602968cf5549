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
