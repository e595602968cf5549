/* SPDX-License-Identifier: Apache-2.0 */
/* Type `adam_state`, `of` a value of type params: what Adam remembers from one update to the next.
 * Field `skipped`: gradients that were left out so far. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_adam_state;

struct hd_adam_counts {
    int64_t updates;  /* so far */
    int64_t skipped;  /* gradients of losses that were not finite (runtime.on_nan: skip) */
    int64_t in_a_row; /* of these, since the last update */
};

/* The arrays of an instance. */
struct hd_adam_state {
    float *first, *second;         /* [elements]: first and second moments of the gradient */
    struct hd_adam_counts *counts; /* [buckets] */
};

/* Returns the arrays of the instance at `data`. */
struct hd_adam_state hd_adam_state_lay_out(const struct hd_spec *spec, void *data);
