/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of episodes, for CPUs and GPUs. Thread safe. */
#pragma once

#include "runtime/base/rng.h"

/* hd_hash_text("env reset"), as a constant because GPUs do not compute hashes. */
#define HD_ENV_SEED_STREAM UINT64_C(0x67706867FA500DA4)

/* Returns the seed of an episode, derived from the run's seed. Each (shard, env, episode) has its
 * own, and the iteration does not enter. DI-engine seeds every rank alike (docs/di-engine.md 6.7),
 * so that its ranks collect the same data. */
HD_INLINE uint64_t hd_env_get_seed(uint64_t seed, int64_t shard, int64_t env, int64_t episode)
{
    const struct hd_rng rng = hd_rng_make(seed, HD_ENV_SEED_STREAM, shard, env, episode >> 32);
    return hd_rng_draw_u64(&rng, (uint32_t)episode);
}
