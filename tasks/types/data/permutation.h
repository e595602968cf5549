/* SPDX-License-Identifier: Apache-2.0 */
/* Type `permutation`: a permutation of a shard's samples, with the number of its minibatches that
 * have been taken. Thread safe. */
#pragma once

#include "tasks/base/registry.h"
#include "tasks/types/learn/learn.h"

extern const struct hd_type hd_type_permutation;

/* An instance. */
struct hd_permutation {
    int64_t taken;    /* minibatches taken so far */
    int32_t sample[]; /* [N] */
};

/* Returns how a value of type permutation is cut in minibatches. Borrowed. */
const struct hd_minibatch_split *hd_permutation_get_split(const struct hd_spec *spec);
