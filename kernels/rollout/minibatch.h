/* SPDX-License-Identifier: Apache-2.0 */
/* Minibatches from the samples of an on-policy collect on a GPU (docs/di-engine.md 3.5), for the
 * verb `sample_minibatch`. Thread safe; launches only. */
#pragma once

#include "kernels/envs/actions.h"
#include "kernels/rollout/steps.h"

/* Samples [lo, hi) of a permutation. */
struct hd_minibatch_range {
    int64_t lo, hi;
};

struct hd_minibatch_source {
    struct hd_steps from;
    const float *advantage, *target, *value; /* [N]: of all samples, in device memory */
    int64_t rows;                            /* B */
    /* The permutation and the range of its samples that are the rows, in device or shared memory.
     * Rows beyond their number, 1 … B, are copies of the first one. */
    const int32_t *sample;
    const struct hd_minibatch_range *range;
};

/* The arrays of a minibatch (tasks/types/data/minibatch.h), device memory. */
struct hd_minibatch_arrays {
    int64_t *used;                     /* [1]; NULL: not written */
    char *obs;                         /* [B][stack frames] */
    union hd_action_number *action;    /* [B][dims] */
    float *logit;                      /* [B][logits] */
    float *advantage, *target, *value; /* [B] */
};

/* Fills all rows in one launch. `sample` and `range` are read when it runs, everything else before
 * the call returns. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_minibatch_gather_cuda(const struct hd_minibatch_source *source,
                             const struct hd_minibatch_arrays *to, void *stream);
