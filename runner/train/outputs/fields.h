/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a run's values, for what it tells at its end. Called by the session's thread, when no
 * task runs. */
#pragma once

#include "runner/train/base/train.h"

/* Returns a field of a value of the graph on this rank, as expressions name it; NaN: the graph has
 * no such value or field, or the value has no content yet. */
double hd_fields_read(const struct hd_train *train, const char *value, const char *field);

/* Returns the env steps of all shards so far, 0 where nothing is collected. */
double hd_fields_count_env_steps(const struct hd_train *train);

/* Returns how many updates were left out as their losses were not finite, over all optimizers; of
 * shard 0's, where each shard has its own. */
int64_t hd_fields_count_skipped(const struct hd_train *train);
