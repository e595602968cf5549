/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors by which shards of flat types are combined: the floats of a bucket, then a count of what
 * was added, by which a mean is divided. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

/* These are `bytes` and `combine` of a hd_reduction. */
int64_t hd_counted_floats_get_bytes(const struct hd_spec *spec, int bucket);
void hd_counted_floats_add(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                           const void *other);

/* Writes a vector's floats to the bucket of the instance `data`, those of a mean divided by the
 * count unless it is 0. Returns the count. */
float hd_counted_floats_divide(const struct hd_spec *spec, int bucket, enum hd_combine how,
                               const void *vector, void *data);
