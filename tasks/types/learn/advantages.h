/* SPDX-License-Identifier: Apache-2.0 */
/* Type `advantages`: what a shard's policy and value learn towards, one row for each of its N =
 * policy.collect.n_sample samples, group by group. */
#ifndef HD_TASKS_TYPES_LEARN_ADVANTAGES_H
#define HD_TASKS_TYPES_LEARN_ADVANTAGES_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_advantages;

struct hd_advantages {
    float *advantage; /* [N], not yet standardised */
    float *target;    /* [N]: return, in the net's units */
    float *value;     /* [N]: of the net before it learns, in its units */
};

int64_t hd_advantages_count_rows(const struct hd_spec *spec); /* N */
struct hd_advantages hd_advantages_get(const struct hd_spec *spec, void *data);

#endif
