/* SPDX-License-Identifier: Apache-2.0 */
/* Type `minibatch`: the samples of one shard that an update of on-policy learning learns from.
 * Thread safe. */
#pragma once

#include "kernels/envs/actions.h"
#include "tasks/base/registry.h"
#include "tasks/types/base/sequences.h"

extern const struct hd_type hd_type_minibatch;

struct hd_minibatch_shape {
    int64_t rows; /* B: of a minibatch */
    int64_t obs_bytes;
    bool u8; /* observations are bytes; else floats */
    struct hd_env_actions actions;
    int64_t logits; /* from which an action is drawn */
    struct hd_sequences sequences;
};

/* The arrays of an instance. The first *used rows count; others hold copies of the first one. */
struct hd_minibatch {
    int64_t *used;                  /* [1] */
    char *obs;                      /* [B][obs_bytes] */
    union hd_action_number *action; /* [B][dims] */
    float *logit;                   /* [B][logits]: that the action was sampled from */
    float *advantage, *target,
        *value; /* [B], as in hd_advantages; advantages perhaps standardised */
    /* A recurrent net has these; its rows are sequences of Z steps. */
    float *state;  /* [B / Z][state]: before the first row of each */
    float *begins; /* [B]: 1 where an episode begins with a row that is not the first one; else 0 */
};

/* Return the shape of a value of type minibatch, and the arrays of an instance. */
const struct hd_minibatch_shape *hd_minibatch_get_shape(const struct hd_spec *spec);
struct hd_minibatch hd_minibatch_get(const struct hd_spec *spec, void *data);
