/* SPDX-License-Identifier: Apache-2.0 */
/* Adding the leaves of gradients on a GPU in the fixed tree (runtime/base/tree.h), to the bit what
 * hd_tree_add gives on a CPU. */
#ifndef HD_KERNELS_COMMON_TREE_ADD_H
#define HD_KERNELS_COMMON_TREE_ADD_H

#include <stdbool.h>
#include <stdint.h>

/* Leaves of one gradient, `stride` floats apart, in memory that the device reads. */
struct hd_leaves {
    const float *floats; /* element 0 of leaf 0 */
    const float *counts; /* leaf 0's number of samples; NULL: floats are means, 0 samples each */
    int64_t n, stride;
};

enum { HD_LEAVES_GROUPS = 64, HD_LEAVES_MEMBERS = 256 };

/* to[i], lo <= i < hi, = element i of all leaves, added in tree order: the leaves of every group,
 * then the groups; if `mean` and the leaves have more than 0 samples together, divided by their
 * number, which goes to *count, if that is not NULL and lo < hi. group[groups], memory of the host,
 * read before the call returns; `to` and `count` are the device's. `to` may be one of the leaves,
 * but overlap none otherwise; `count` is none of the counts. One launch; fastest where leaves and
 * `to` begin at multiples of 16 bytes and lo and strides are multiples of 4. HD_ERR_UNSUPPORTED:
 * more groups than HD_LEAVES_GROUPS, more leaves in one than HD_LEAVES_MEMBERS, or not the same
 * number in each. */
int hd_leaves_mean_cuda(int groups, const struct hd_leaves *group, bool mean, int64_t lo,
                        int64_t hi, float *to, float *count, void *stream);

#endif
