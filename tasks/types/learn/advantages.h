/* SPDX-License-Identifier: Apache-2.0 */
/* Type `advantages`: advantages, value targets and values of the N = policy.collect.n_sample
 * samples of one shard, environment group by environment group. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_advantages;

struct hd_advantages {
    float *advantage; /* [N]: not standardised, in units of rewards */
    float *target;    /* [N]: returns, in the units of the net's values */
    float *value;     /* [N]: of the net before it learns, in its units */
};

/* Return N of a value of type advantages, and the arrays of an instance. */
int64_t hd_advantages_count_rows(const struct hd_spec *spec);
struct hd_advantages hd_advantages_get(const struct hd_spec *spec, void *data);
