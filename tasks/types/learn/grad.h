/* SPDX-License-Identifier: Apache-2.0 */
/* Type `grad`, `of` a value of type params: a gradient. A shard's gradient is a sum over samples in
 * partials, one for each microbatch; each says, bucket by bucket, over how many samples. A gradient
 * that is not a shard's is a mean, in one partial. Thread safe; writers of one bucket of a partial
 * exclude each other. */
#pragma once

#include "kernels/common/partials.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_grad;

/* Return the [elements] sums of a partial, and the [buckets] numbers of samples in them. */
float *hd_grad_get_partial(const struct hd_spec *spec, void *data, int64_t partial);
float *hd_grad_get_counts(const struct hd_spec *spec, void *data, int64_t partial);

/* Returns elements [lo, hi) of bucket `bucket` of the sum over a gradient's samples, and in
 * *count_p the number by which to divide them for a mean. A shard's partials are added in tree
 * order, into buffer[hi - lo] if there are several; a single partial is returned where it lies. A
 * mean is divided by 1, and so is a sum over no samples, which is zero. A count that is NaN is
 * passed on (runtime.on_nan: skip). */
const float *hd_grad_sum(const struct hd_spec *spec, const void *data, int bucket, int64_t lo,
                         int64_t hi, float *buffer, float *count_p);

/* Returns the partials of bucket `bucket` for kernels on a GPU, with floats counted from element 0
 * of the gradient, in either order. A mean has no counts. */
struct hd_partials hd_grad_get_partials(const struct hd_spec *spec, const void *data, int bucket);
