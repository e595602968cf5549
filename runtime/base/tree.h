/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed tree in which contributions are added: a node over [lo, hi) with n = hi - lo > 1 leaves
 * has the children [lo, lo + n/2) and [lo + n/2, hi). Its shape depends on the number of leaves
 * alone, so sums do not depend on who computed which node. Thread safe. */
#pragma once

#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether `ranks` equal contiguous blocks of [0, shards) are all nodes of the tree. If so,
 * the nodes above the blocks are the tree over [0, ranks). */
bool hd_tree_is_block_allowed(int64_t shards, int64_t ranks);

/* Writes the allowed numbers of ranks as "1, 2, 4, 8" into text[bytes]. */
void hd_tree_format_allowed(int64_t shards, char *text, size_t bytes);

/* Returns the number of levels that hd_tree_reduce uses for n >= 1 leaves: ceil(log2 n) + 1; it
 * cannot fail. */
int hd_tree_count_levels(int64_t n);

/* Returns how many inner nodes of the tree over n leaves end with leaf i: the number of sums that
 * can be formed once leaf i is known. With a stack: push leaf i, then replace the upper two entries
 * by their sum that many times. */
HD_INLINE int hd_tree_count_sums(int64_t i, int64_t n)
{
    int sums = 0;
    while (n > 1) {
        const int64_t half = n / 2;
        const bool right = i >= half;
        i -= right ? half : 0;
        n = right ? n - half : half;
        sums = right ? sums + 1 : 0;
    }
    return sums;
}

/* Reduces leaves lo <= i < hi in tree order and returns the root's result. One scratch buffer per
 * level is enough: `leaf` returns leaf i, which it may copy to the buffer of `level` or leave where
 * it is; `combine` returns left + right, which it may put into the buffer of `level`, because
 * `left` is that buffer or a leaf left where it was, and `right` is never that buffer. */
void *hd_tree_reduce(int64_t lo, int64_t hi, void *(*leaf)(void *arg, int64_t i, int level),
                     void *(*combine)(void *arg, int level, void *left, void *right), void *arg);

/* Stores in sum[i - lo], for lo <= i < hi, the sum over element i of all terms, added in tree
 * order: first the `members` of every group, which lie `stride` floats apart from group[g] on, then
 * the groups. It works in tiles that fit the first-level cache. sum must not overlap a term. */
void hd_tree_add(int64_t groups, const float *const *group, int64_t members, int64_t stride,
                 int64_t lo, int64_t hi, float *sum);

/* A precision to which sums are rounded, so that they travel in fewer bytes. An array is cut in
 * blocks of HD_BLOCK elements, the last one perhaps shorter, and each block is rounded by itself.
 */
struct hd_rounding {
    const char *name;
    int element_bytes, block_bytes; /* of an element, and what a block has beside its elements */
    /* Rounds a block of n floats to nearest, ties to even, into `to`; and gives the floats that
     * `from` stands for. A number that is not finite stays so. `from` and `to` do not overlap. */
    void (*encode)(const float *from, int64_t n, void *to);
    void (*decode)(const void *from, int64_t n, float *to);
};

/* Returns the bytes of a block of n elements. */
static inline int64_t hd_rounding_get_bytes(const struct hd_rounding *rounding, int64_t n)
{
    return n * rounding->element_bytes + rounding->block_bytes;
}
