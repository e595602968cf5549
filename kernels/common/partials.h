/* SPDX-License-Identifier: Apache-2.0 */
/* Adding the partials of gradients on a GPU in the fixed tree (runtime/base/tree.h), to the bit
 * what hd_tree_add gives on a CPU. */
#ifndef HD_KERNELS_COMMON_PARTIALS_H
#define HD_KERNELS_COMMON_PARTIALS_H

#include <stdbool.h>
#include <stdint.h>

/* Partials of one gradient, `stride` floats apart, in memory that the device reads. */
struct hd_partials {
    const float *floats; /* element 0 of partial 0 */
    const float *counts; /* partial 0's number of samples; NULL: floats are means, 0 samples each */
    int64_t n, stride;
};

enum { HD_PARTIALS_GROUPS = 64, HD_PARTIALS_MEMBERS = 256 };

/* to[i], lo <= i < hi, = element i of all partials, added in tree order: the partials of every
 * group, then the groups; if `mean` and the partials have more than 0 samples together, divided by
 * their number, which goes to *count, if that is not NULL and lo < hi. group[groups], memory of the
 * host, read before the call returns; `to` and `count` are the device's. `to` may be one of the
 * partials, but overlap none otherwise; `count` is none of the counts. One launch; fastest where
 * partials and `to` begin at multiples of 16 bytes and lo and strides are multiples of 4.
 * HD_ERR_UNSUPPORTED: more groups than HD_PARTIALS_GROUPS, more partials in one than
 * HD_PARTIALS_MEMBERS, or not the same number in each. */
int hd_partials_mean_cuda(int groups, const struct hd_partials *group, bool mean, int64_t lo,
                          int64_t hi, float *to, float *count, void *stream);

#endif
