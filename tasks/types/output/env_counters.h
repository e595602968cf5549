/* SPDX-License-Identifier: Apache-2.0 */
/* Type `env_counters`: how much was collected since the run began. Shards combine by adding,
 * whatever the verb. */
#ifndef HD_TASKS_TYPES_OUTPUT_ENV_COUNTERS_H
#define HD_TASKS_TYPES_OUTPUT_ENV_COUNTERS_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_env_counters;

/* An instance; zeroed at first. Fields of the same names can be read in expressions. */
struct hd_env_counters {
    int64_t env_step; /* steps of all envs, of dropped samples too */
    int64_t episode;  /* finished episodes */
    int64_t sample;   /* samples made, dropped ones too */
};

#endif
