/* SPDX-License-Identifier: Apache-2.0 */
/* Type `adam_state`, `of` a value of type params: what Adam remembers from one update to the next.
 * Thread safe. */
#ifndef HD_TASKS_TYPES_LEARN_ADAM_STATE_H
#define HD_TASKS_TYPES_LEARN_ADAM_STATE_H

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_adam_state;

/* The arrays of an instance. */
struct hd_adam_state {
    float *first, *second; /* [elements]: first and second moments of the gradient */
    int64_t *updates;      /* [buckets]: updates so far */
};

/* Returns the arrays of the instance at `data`. */
struct hd_adam_state hd_adam_state_lay_out(const struct hd_spec *spec, void *data);

#endif
