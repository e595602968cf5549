/* SPDX-License-Identifier: Apache-2.0 */
/* Type `sampler_state`: the epoch in which a shard samples a data set, and how far in it. Its
 * attributes `batches` and `epoch` count the batches sampled and the epochs completed. Thread safe.
 */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_sampler_state;

/* Indices of the attributes. */
enum { HD_SAMPLER_STATE_BATCHES, HD_SAMPLER_STATE_EPOCH };

/* An instance; zeroed at first. */
struct hd_sampler_state {
    int64_t epoch;
    int64_t next; /* next entry of the shard's list for this epoch */
};
