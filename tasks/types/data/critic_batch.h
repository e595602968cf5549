/* SPDX-License-Identifier: Apache-2.0 */
/* Type `critic_batch`: what critics of one shard learn from a batch of B transitions: observations
 * joined with the actions taken there, and the values that are their targets. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_critic_batch;

struct hd_critic_batch_shape {
    int64_t rows, obs, dims; /* B; numbers of an observation and of an action */
};

struct hd_critic_batch {
    int64_t *used; /* [1]: rows that are learned from, the first ones */
    float *input;  /* [B][obs + dims] */
    float *target; /* [B] */
};

/* Return the shape of a value of type critic_batch, and the arrays of an instance. */
const struct hd_critic_batch_shape *hd_critic_batch_get_shape(const struct hd_spec *spec);
struct hd_critic_batch hd_critic_batch_get(const struct hd_spec *spec, void *data);
