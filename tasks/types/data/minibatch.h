/* SPDX-License-Identifier: Apache-2.0 */
/* Type `minibatch`: some of a shard's samples, with what the loss of on-policy learning needs of
 * them. */
#ifndef HD_TASKS_TYPES_DATA_MINIBATCH_H
#define HD_TASKS_TYPES_DATA_MINIBATCH_H

#include "tasks/registry.h"

extern const struct hd_type hd_type_minibatch;

struct hd_minibatch_shape {
    int64_t rows; /* B */
    int64_t obs_bytes, actions;
};

/* The arrays of an instance. The first *used rows count, others hold copies of the first one. */
struct hd_minibatch {
    int64_t *used;   /* [1] */
    char *obs;       /* [B][obs_bytes] */
    int32_t *action; /* [B] */
    float *logit;    /* [B][actions]: those that the action was drawn from */
    float *advantage, *target,
        *value; /* [B], as in hd_advantages; advantages perhaps standardised */
};

/* The shape of a value of type minibatch, and the arrays of one instance. */
const struct hd_minibatch_shape *hd_minibatch_get_shape(const struct hd_spec *spec);
struct hd_minibatch hd_minibatch_get(const struct hd_spec *spec, void *data);

#endif
