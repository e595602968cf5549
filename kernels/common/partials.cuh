/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the partials of a gradient in tree order, in registers, for the kernels that read
 * partials. Each thread adds one or four elements. */
#pragma once

#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/common/partials.h"
#include "runtime/base/tree.h"
}

/* Groups of partials and the order in which they are added, as an argument of a kernel. */
template <int GROUPS> struct hd_partials_tree {
    int groups, members;
    int rows;  /* sums that are pending at a time, at most */
    bool wide; /* elements from `lo` on can be read four at a time */
    /* Numbers of additions that follow partial m of a group, and additionally group g. */
    uint8_t member_sums[HD_PARTIALS_MEMBERS], group_sums[GROUPS];
    struct hd_partials group[GROUPS];
};

static inline bool hd_partials_are_aligned(const void *at)
{
    return (uintptr_t)at % 16 == 0;
}

/* Fills sums[n] and returns the largest number of sums that are pending at a time. */
static inline int hd_partials_count_sums(int64_t n, uint8_t *sums)
{
    int waiting = 0, max = 0;
    for (int64_t i = 0; i < n; i++) {
        max = waiting > max ? waiting : max;
        sums[i] = (uint8_t)hd_tree_count_sums(i, n);
        waiting += 1 - sums[i];
    }
    return max;
}

/* Fills `tree` with groups of equally many partials, to be read from element `lo` on. Returns HD_OK
 * or HD_ERR_UNSUPPORTED (logged): the limits of hd_partials_mean_cuda. */
template <int GROUPS>
static int hd_partials_tree_make(int groups, const struct hd_partials *group, int64_t lo,
                                 hd_partials_tree<GROUPS> *tree)
{
    if (groups < 1 || groups > GROUPS || group->n < 1 || group->n > HD_PARTIALS_MEMBERS)
        return hd_fail(HD_ERR_UNSUPPORTED,
                       "%d gradients of %lld partials cannot be added on a GPU: at most %d of %d",
                       groups, (long long)group->n, GROUPS, (int)HD_PARTIALS_MEMBERS);
    tree->groups = groups;
    tree->members = (int)group->n;
    tree->rows = hd_partials_count_sums(groups, tree->group_sums) +
                 hd_partials_count_sums(tree->members, tree->member_sums);
    tree->wide = true;
    for (int g = 0; g < groups; g++) {
        if (group[g].n != group->n)
            return hd_fail(HD_ERR_UNSUPPORTED,
                           "gradients of %lld and %lld partials cannot be added",
                           (long long)group->n, (long long)group[g].n);
        tree->group[g] = group[g];
        tree->wide = tree->wide && hd_partials_are_aligned(group[g].floats + lo) &&
                     (group[g].n == 1 || group[g].stride % 4 == 0);
    }
    return HD_OK;
}

/* Kernels that read partials have parameters <elements of a thread, pending sums> and are compiled
 * for these values; hd_partials_find_variant chooses one. */
#define HD_PARTIALS_VARIANTS(kernel)                                                               \
    {                                                                                              \
        kernel<4, 1>, kernel<4, 3>, kernel<4, 7>, kernel<4, 14>, kernel<1, 14>                     \
    }

struct hd_partials_variant {
    int index, width; /* index in the list above, elements of a thread */
};

static inline struct hd_partials_variant hd_partials_find_variant(int rows, bool wide)
{
    const int index = !wide ? 4 : rows <= 1 ? 0 : rows <= 3 ? 1 : rows <= 7 ? 2 : 3;
    const struct hd_partials_variant variant = {index, wide ? 4 : 1};
    return variant;
}

/* W floats, read and written at once. */
template <int W> struct alignas(4 * W) hd_floats {
    float at[W];
};

template <int W> static __device__ hd_floats<W> hd_floats_load(const float *from)
{
    return *(const hd_floats<W> *)from;
}

template <int W> static __device__ void hd_floats_store(float *to, const hd_floats<W> &floats)
{
    *(hd_floats<W> *)to = floats;
}

/* A node of the tree: the sum of W elements and the number of samples behind it. */
template <int W> struct hd_partials_node {
    hd_floats<W> floats;
    float samples;
};

template <int W, int ROWS> struct hd_partials_stack {
    hd_partials_node<W> row[ROWS]; /* the top of the stack first */

    __device__ void push(const hd_partials_node<W> &node)
    {
#pragma unroll
        for (int r = ROWS - 1; r > 0; r--)
            row[r] = row[r - 1];
        row[0] = node;
    }

    /* Pops the top of the stack: node = top + node. */
    __device__ void add_to(hd_partials_node<W> *node)
    {
#pragma unroll
        for (int k = 0; k < W; k++)
            node->floats.at[k] = row[0].floats.at[k] + node->floats.at[k];
        node->samples = row[0].samples + node->samples;
#pragma unroll
        for (int r = 0; r + 1 < ROWS; r++)
            row[r] = row[r + 1];
    }
};

/* Returns the sum of elements [i, i + W) over all partials. All threads take the same branches. */
template <int W, int ROWS, int GROUPS>
static __device__ hd_partials_node<W> hd_partials_sum(const hd_partials_tree<GROUPS> &tree,
                                                      int64_t i)
{
    hd_partials_stack<W, ROWS> stack = {};
    hd_partials_node<W> node = {};
    for (int g = 0; g < tree.groups; g++) {
        const float *floats = tree.group[g].floats + i, *counts = tree.group[g].counts;
        const int64_t stride = tree.group[g].stride;
        for (int m = 0; m < tree.members; m++) {
            node.floats = hd_floats_load<W>(floats + m * stride);
            node.samples = counts ? counts[m * stride] : 0;
            int sums = tree.member_sums[m];
            sums += m + 1 == tree.members ? tree.group_sums[g] : 0;
#pragma unroll 1
            for (; sums > 0; sums--)
                stack.add_to(&node);
            stack.push(node);
        }
    }
    return node;
}

/* Divides the sum by its number of samples, if there are any. */
template <int W> static __device__ void hd_partials_divide(hd_partials_node<W> *node)
{
    const float divisor = node->samples > 0 ? node->samples : 1;
#pragma unroll
    for (int k = 0; k < W; k++)
        node->floats.at[k] /= divisor;
}
