/* SPDX-License-Identifier: Apache-2.0 */
/* Where a collector's episodes begin, whichever processor plays them. */
#ifndef HD_KERNELS_ENVS_SEED_H
#define HD_KERNELS_ENVS_SEED_H

#include "runtime/base/rng.h"

/* hd_hash_text("env reset"), which no GPU computes. */
#define HD_ENV_SEED_STREAM UINT64_C(0x67706867FA500DA4)

/* The seed of an episode, from the run's seed. Each (shard, env, episode) has its own and no
 * iteration enters; DI-engine seeds every rank alike (spec 6.7), which collects the same data
 * several times. */
HD_INLINE uint64_t hd_env_get_seed(uint64_t seed, int64_t shard, int64_t env, int64_t episode)
{
    const struct hd_rng rng = hd_rng_make(seed, HD_ENV_SEED_STREAM, shard, env, episode >> 32);
    return hd_rng_draw_u64(&rng, (uint32_t)episode);
}

#endif
