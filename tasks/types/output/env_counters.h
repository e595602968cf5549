/* SPDX-License-Identifier: Apache-2.0 */
/* Type `env_counters`: steps, episodes and samples collected since the run began. The counters of
 * shards are added. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_env_counters;

/* An instance; zeroed at first. Its fields have the same names in expressions. */
struct hd_env_counters {
    int64_t env_step; /* steps of all envs */
    int64_t episode;  /* ended episodes */
    int64_t sample;   /* samples, also those that were dropped */
    int64_t dropped;  /* samples that were dropped; on-policy steps that became none count too */
};
