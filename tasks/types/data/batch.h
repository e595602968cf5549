/* SPDX-License-Identifier: Apache-2.0 */
/* Type `batch`: policy.learn.batch_size transitions of one shard, drawn for one update, or fewer
 * where there are no more. */
#ifndef HD_TASKS_TYPES_DATA_BATCH_H
#define HD_TASKS_TYPES_DATA_BATCH_H

#include "kernels/replay/transitions.h"
#include "tasks/registry.h"

extern const struct hd_type hd_type_batch;

/* Its shape: `rows` is the batch size B, has_value_gamma as policy.nstep > 1. Borrowed. */
const struct hd_transition_shape *hd_batch_get_shape(const struct hd_spec *spec);

/* Its arrays: obs[B][obs_bytes], next_obs[B][obs_bytes], action[B], reward[nstep][B], done[B],
 * value_gamma[B] (or NULL). Observations are bytes or floats as in tasks/types/collect/obs.h.
 * `data` is the instance, a view's data. */
struct hd_transitions hd_batch_get_rows(const struct hd_spec *spec, void *data);

/* How many of its rows, the first ones, are learned from; others are zeros. And the rows' weights
 * in statistics, weight[B]: 0 for those that stand in for missing ones, else 1. */
struct hd_batch_use {
    int64_t *used;
    float *weight;
};
struct hd_batch_use hd_batch_get_use(const struct hd_spec *spec, void *data);

#endif
