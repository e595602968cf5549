/* SPDX-License-Identifier: Apache-2.0 */
/* Type `batch_norm_stats`, `of` a value of type params: the running statistics of its net's batch
 * norms, PyTorch's running_mean, running_var and num_batches_tracked. Each shard has an instance;
 * they are bitwise identical, because all are updated by the same sums over shards, and `broadcast`
 * makes one global. A net without batch norms has none. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_batch_norm_stats;

/* Return the running statistics of the instance at `data` (NULL: returns NULL), in the layout of
 * hd_net_count_running, and the address of the number of batches behind them. */
float *hd_batch_norm_stats_get_running(void *data);
int64_t *hd_batch_norm_stats_get_batches(void *data);

/* Checks, from a verb's `prepare`, that a net with batch norms comes with a value of this type at
 * `port`. A verb without such a port (HD_NO_BATCH_NORM_STATS) takes no such nets. Returns HD_OK, or
 * HD_ERR_INPUT (in setup->diag). */
enum { HD_NO_BATCH_NORM_STATS = -1 };
int hd_batch_norm_stats_check(const struct hd_setup *setup, const struct hd_spec *params, int port);
