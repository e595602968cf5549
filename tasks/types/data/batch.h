/* SPDX-License-Identifier: Apache-2.0 */
/* Type `batch`: the policy.learn.batch_size transitions of one shard that an update learns from.
 * The last batch of an epoch of a data set may have fewer. Thread safe. */
#pragma once

#include "kernels/replay/transitions.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_batch;

/* Returns the shape of a value of type batch: `rows` is the batch size B, and has_value_gamma says
 * whether policy.nstep > 1. Borrowed. */
const struct hd_transition_shape *hd_batch_get_shape(const struct hd_spec *spec);

/* Returns the arrays of the instance at `data`: obs[B][obs_bytes], next_obs[B][obs_bytes],
 * action[B][dims], reward[nstep][B], done[B], value_gamma[B] (or NULL). Observations are bytes or
 * floats (tasks/types/base/obs.h). */
struct hd_transitions hd_batch_get_rows(const struct hd_spec *spec, void *data);

/* The use of the rows of an instance. */
struct hd_batch_use {
    int64_t *used; /* [1]: rows that are learned from, the first ones; the others are zeros */
    float *weight; /* [B]: in statistics; 0 for rows that stand in for missing ones, else 1 */
};

/* The draws of the rows by priorities; without policy.priority both are NULL. */
struct hd_batch_draws {
    int64_t *number;   /* [B]: of each transition in the replay */
    float *importance; /* [B]: importance-sampling weights, above 0 and at most 1; 1 for all rows
                          without policy.priority_IS_weight */
};

/* Return how the rows of the instance at `data` are used, and how they were drawn. */
struct hd_batch_use hd_batch_get_use(const struct hd_spec *spec, void *data);
struct hd_batch_draws hd_batch_get_draws(const struct hd_spec *spec, void *data);
