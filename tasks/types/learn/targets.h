/* SPDX-License-Identifier: Apache-2.0 */
/* Type `targets`: what a shard's policy and value learn towards, one row for each of its N =
 * policy.collect.n_sample samples, group by group. */
#ifndef HD_TASKS_TYPES_LEARN_TARGETS_H
#define HD_TASKS_TYPES_LEARN_TARGETS_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_targets;

struct hd_targets {
    float *advantage; /* [N], not yet standardised */
    float *target;    /* [N]: return, in the net's units */
    float *value;     /* [N]: of the net before it learns, in its units */
};

int64_t hd_targets_rows(const struct hd_spec *spec); /* N */
struct hd_targets hd_targets_at(const struct hd_spec *spec, void *data);

#endif
