/* SPDX-License-Identifier: Apache-2.0 */
/* Type `sampler_state`: how far a shard has drawn from a data set. It moves with every draw, so
 * that no epoch is ever drawn in the order of another. Attributes `batches` and `epoch`: how many
 * batches were drawn, and epochs completed. */
#ifndef HD_TASKS_TYPES_DATA_SAMPLER_STATE_H
#define HD_TASKS_TYPES_DATA_SAMPLER_STATE_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_sampler_state;

enum { HD_SAMPLER_STATE_BATCHES, HD_SAMPLER_STATE_EPOCH };

/* An instance; zeroed at first. */
struct hd_sampler_state {
    int64_t epoch;
    int64_t next; /* entry of the shard's list for this epoch that comes next */
};

#endif
