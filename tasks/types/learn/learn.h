/* SPDX-License-Identifier: Apache-2.0 */
/* How one update of one shard is cut, as the run file says: a batch of rows, learned from in
 * microbatches, each a partial of the gradient's sum. */
#ifndef HD_TASKS_TYPES_LEARN_LEARN_H
#define HD_TASKS_TYPES_LEARN_LEARN_H

#include "runtime/base/config/config.h"

struct hd_learn_shape {
    int64_t rows;     /* of a batch: policy.learn.batch_size, `accumulate` times */
    int64_t micro;    /* of a microbatch: policy.learn.microbatch, else batch_size */
    int64_t partials; /* rows / micro, a whole number unless the config is mistaken */
};

/* From policy.learn and, for on-policy learning, hd_minibatch_split_read. */
struct hd_learn_shape hd_learn_shape_read(const struct hd_config *config);

/* Minibatches of on-policy learning: N = policy.collect.n_sample samples, shuffled, are cut in
 * slices of `rows` (spec 3.5). */
struct hd_minibatch_split {
    int64_t samples; /* N */
    int64_t rows;    /* of a minibatch */
    int64_t count;   /* minibatches of an epoch */
    bool overlap;    /* a last slice that would be short is moved back over the one before */
};

/* From policy.learn and policy.collect.n_sample. */
struct hd_minibatch_split hd_minibatch_split_read(const struct hd_config *config);

/* Samples [*lo_p, *hi_p) of the permutation that make minibatch i. */
void hd_minibatch_split_get_range(const struct hd_minibatch_split *split, int64_t i, int64_t *lo_p,
                                  int64_t *hi_p);

#endif
