/* SPDX-License-Identifier: Apache-2.0 */
/* Types `params`, `grad` and `adam_state`: flat arrays in the layout of the policy's net, cut in
 * the same buckets. A gradient is a sum over samples and carries how many, once per bucket. */
#ifndef HD_TASKS_TYPES_LEARN_PARAMS_H
#define HD_TASKS_TYPES_LEARN_PARAMS_H

#include "kernels/common/partials.h"
#include "kernels/net/net.h"
#include "tasks/registry.h"

/* The net of a value of type params, or of one made `of` it. Borrowed. */
const struct hd_net *hd_params_get_net(const struct hd_spec *spec);

/* For a verb's `prepare`, where a net does not yield what is needed: tells, at policy.type of the
 * run file, that it must be `type`, and `why`. Returns HD_ERR_INPUT. */
int hd_params_refuse_type(const struct hd_setup *setup, const char *type, const char *why);

/* Partial `partial` of a gradient: [elements] sums over its samples, and how many they are in each
 * bucket [buckets]. */
float *hd_grad_get_partial(const struct hd_spec *spec, void *data, int64_t partial);
float *hd_grad_get_counts(const struct hd_spec *spec, void *data, int64_t partial);

/* Elements [lo, hi) of bucket `bucket` of the mean over a gradient's samples, as a sum and
 * *count_p, the number to divide it by. A shard's own gradient is the sum of its partials in tree
 * order, put into buffer[hi - lo] or read where it lies; one that is not a shard's is a mean
 * already (divided by 1). Without samples the sum is zero and divided by 1. */
const float *hd_grad_sum(const struct hd_spec *spec, const void *data, int bucket, int64_t lo,
                         int64_t hi, float *buffer, float *count_p);

/* The same partials for a GPU: those of bucket `bucket`, floats from element 0 on. A gradient that
 * is not a shard's is a mean already: it has no counts. */
struct hd_partials hd_grad_get_partials(const struct hd_spec *spec, const void *data, int bucket);

/* First and second moments [elements] and number of updates [buckets] of an adam_state. */
struct hd_adam_state {
    float *first, *second;
    int64_t *updates;
};
struct hd_adam_state hd_adam_state_lay_out(const struct hd_spec *spec, void *data);

#endif
