/* SPDX-License-Identifier: Apache-2.0 */
/* The cut of samples in updates, as the run file describes it: a batch in microbatches, each a
 * partial of the gradient's sum, and the samples of an on-policy collect in minibatches. Thread
 * safe. */
#pragma once

#include "runtime/base/config/config.h"

struct hd_learn_shape {
    int64_t rows;     /* of a batch: policy.learn.batch_size, `accumulate` times */
    int64_t micro;    /* rows of a microbatch: policy.learn.microbatch, else batch_size */
    int64_t partials; /* rows / micro; loss_grad refuses a config in which micro is no divisor */
};

/* Returns how the run file cuts a batch. On-policy learning cuts minibatches. */
struct hd_learn_shape hd_learn_shape_read(const struct hd_config *config);

/* The cut of N = policy.collect.n_sample shuffled samples in minibatches (docs/di-engine.md 3.5).
 */
struct hd_minibatch_split {
    int64_t samples; /* N */
    int64_t rows;    /* of a minibatch */
    int64_t count;   /* minibatches of an epoch */
    int64_t steps; /* of a sequence of samples that stay together (tasks/types/base/sequences.h) */
    bool overlap;  /* a last minibatch that would be short overlaps the one before */
};

/* Returns how the run file cuts the samples of a collect. */
struct hd_minibatch_split hd_minibatch_split_read(const struct hd_config *config);

/* Gives the range [*lo_p, *hi_p) of the permutation that is minibatch i. */
void hd_minibatch_split_get_range(const struct hd_minibatch_split *split, int64_t i, int64_t *lo_p,
                                  int64_t *hi_p);
