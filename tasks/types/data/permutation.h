/* SPDX-License-Identifier: Apache-2.0 */
/* Type `order`: a permutation of a shard's samples and how far it is dealt out in minibatches. */
#ifndef HD_TASKS_TYPES_DATA_PERMUTATION_H
#define HD_TASKS_TYPES_DATA_PERMUTATION_H

#include "tasks/registry.h"
#include "tasks/types/learn/learn.h"

extern const struct hd_type hd_type_order;

/* An instance. */
struct hd_order {
    int64_t dealt;    /* minibatches taken so far */
    int32_t sample[]; /* [N] */
};

/* How a value of type order is cut in minibatches. Borrowed. */
const struct hd_minibatch_shape *hd_order_shape(const struct hd_spec *spec);

#endif
