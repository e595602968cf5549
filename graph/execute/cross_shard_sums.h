/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of cross-shard sums, and the collective that adds them up: what the items of a stage
 * leave is a partial per item of every instance of this rank, and their total is one array. Called
 * by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_CROSS_SHARD_SUMS_H
#define HD_GRAPH_EXECUTE_CROSS_SHARD_SUMS_H

#include "graph/execute/bind.h"

/* The sums after one stage of one step. */
struct hd_cross_shard_buffers;

/* Makes zeroed memory for sums that outlive it. The caller releases *cross_shard_p, which a failure
 * may leave set too, with hd_cross_shard_buffers_destroy (accepts NULL), before the session.
 * Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_cross_shard_buffers_create(struct hd_binder *binder, const struct hd_cross_shard_sums *sums,
                                  struct hd_cross_shard_buffers **cross_shard_p);
void hd_cross_shard_buffers_destroy(struct hd_cross_shard_buffers *cross_shard);

/* Returns where an item leaves its numbers, and stores the access of the task that writes them. */
double *hd_cross_shard_buffers_get_partial(const struct hd_cross_shard_buffers *cross_shard,
                                           int instance, int64_t item, struct hd_access *access_p);

/* Returns the total, and stores the access of a task that reads it. */
const double *hd_cross_shard_buffers_get_total(const struct hd_cross_shard_buffers *cross_shard,
                                               struct hd_access *access_p);

/* Submits the collective that adds up the partials of all ranks. Returns HD_OK, HD_ERR_NOMEM
 * (logged) or the session's error. */
int hd_cross_shard_buffers_submit(const struct hd_cross_shard_buffers *cross_shard, int channel,
                                  struct hd_binder *binder);

#endif
