/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of the partials of a gradient on a GPU, in the fixed tree (runtime/base/tree.h) and with
 * the bits of hd_tree_add on a CPU. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The partials of one gradient, `stride` floats apart, in memory that the device reads. */
struct hd_partials {
    const float *floats; /* element 0 of partial 0 */
    const float *counts; /* number of samples of partial 0; NULL: the floats are means and count 0
                            samples each */
    int64_t n, stride;
};

enum { HD_PARTIALS_GROUPS = 64, HD_PARTIALS_MEMBERS = 256 };

/* Writes to[i], lo <= i < hi, the sum of element i over all partials in tree order: first the
 * partials of every group, then the groups. If `mean` and the partials have more than 0 samples
 * together, the sum is divided by their number, which is also stored in *count unless `count` is
 * NULL or the range is empty. group[groups] is host memory and read before the call returns; `to`
 * and `count` are device memory. `to` may be one of the partials but must not overlap them
 * otherwise; `count` is none of their counts. One launch; it is fastest if partials and `to` begin
 * at multiples of 16 bytes and lo and strides are multiples of 4. Returns HD_OK, HD_ERR_DEVICE, or
 * HD_ERR_UNSUPPORTED if there are more groups than HD_PARTIALS_GROUPS, more partials in one than
 * HD_PARTIALS_MEMBERS, or unequally many (logged). */
int hd_partials_mean_cuda(int groups, const struct hd_partials *group, bool mean, int64_t lo,
                          int64_t hi, float *to, float *count, void *stream);
