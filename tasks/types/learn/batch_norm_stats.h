/* SPDX-License-Identifier: Apache-2.0 */
/* Type `batch_norm_stats`, `of` a value of type params: the running statistics of its net's batch
 * norms, PyTorch's running_mean, running_var and num_batches_tracked. Shards keep a copy each,
 * equal by bits, because what they take in are sums over all shards; `broadcast` makes it global.
 * Of nets without batch norm it holds nothing. */
#ifndef HD_TASKS_TYPES_LEARN_BATCH_NORM_STATS_H
#define HD_TASKS_TYPES_LEARN_BATCH_NORM_STATS_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_batch_norm_stats;

/* Its running statistics, laid out as hd_net_count_running says (NULL for no instance), and how
 * many batches they have taken in. */
float *hd_batch_norm_stats_get_running(void *data);
int64_t *hd_batch_norm_stats_get_batches(void *data);

/* For a verb's `prepare`: nets with batch norm need such a value. `port` is the verb's port of it,
 * HD_NO_BATCH_NORM_STATS: it has none. A mistake where it is missing. */
enum { HD_NO_BATCH_NORM_STATS = -1 };
int hd_batch_norm_stats_check(const struct hd_setup *setup, const struct hd_spec *params, int port);

#endif
