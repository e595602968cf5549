/* SPDX-License-Identifier: Apache-2.0 */
/* This file says which episodes of an evaluation an environment plays, and from which seeds
 * (docs/di-engine.md 5.3). Thread safe. */
#pragma once

#include "runtime/base/config/config.h"

struct hd_eval_seeds {
    int64_t episodes, envs; /* of an evaluation, over all shards */
    bool of_episodes;       /* each episode has a seed of its own, else each environment */
};

/* Returns what the run file says; policy.eval.seeds is asked for only where it matters. */
struct hd_eval_seeds hd_eval_seeds_read(const struct hd_config *config);

/* Returns the number of the first episode of env `env` of all, which plays those up to the first
 * one of the next env. */
int64_t hd_eval_seeds_get_first(const struct hd_eval_seeds *seeds, int64_t env);

/* Returns from which seed an env plays an episode in a run of seed `seed`. */
uint64_t hd_eval_seeds_get(const struct hd_eval_seeds *seeds, uint64_t seed, int64_t env,
                           int64_t episode);
