/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of priorities, for CPUs and GPUs. Thread safe on different memory. */
#pragma once

#include "kernels/replay/priorities.h"
#include "runtime/base/inline.h"

#include <math.h>

/* DI-engine's, so that no transition becomes impossible to draw. */
#define HD_PRIORITIES_EPSILON 1e-5

/* The sum of a node's leaves, and the least that is not 0, or 0. */
struct hd_priorities_node {
    double sum, min;
};

/* Returns the capacity, rounded up to a power of 2. */
HD_INLINE int64_t hd_priorities_count_leaves(const struct hd_priorities_shape *shape)
{
    int64_t leaves = 1;
    while (leaves < shape->capacity)
        leaves *= 2;
    return leaves;
}

/* Returns the inner nodes: node 1 is the root, and the children of node i are 2 i and 2 i + 1,
 * which from `leaves` on are leaves. */
HD_INLINE struct hd_priorities_node *hd_priorities_get_nodes(const struct hd_priorities *priorities,
                                                             int64_t leaves)
{
    return (struct hd_priorities_node *)(priorities->weight + leaves);
}

/* Returns node i, which may be a leaf. */
HD_INLINE struct hd_priorities_node hd_priorities_get_node(const struct hd_priorities *priorities,
                                                           int64_t leaves, int64_t i)
{
    struct hd_priorities_node leaf;
    if (i < leaves)
        return hd_priorities_get_nodes(priorities, leaves)[i];
    leaf.sum = leaf.min = priorities->weight[i - leaves];
    return leaf;
}

/* Renews inner node i from its children. */
HD_INLINE void hd_priorities_compute_node(struct hd_priorities *priorities, int64_t leaves,
                                          int64_t i)
{
    const struct hd_priorities_node left = hd_priorities_get_node(priorities, leaves, 2 * i),
                                    right = hd_priorities_get_node(priorities, leaves, 2 * i + 1);
    const bool takes_left = left.min > 0 && (right.min == 0 || left.min < right.min);
    struct hd_priorities_node *node = &hd_priorities_get_nodes(priorities, leaves)[i];
    node->sum = left.sum + right.sum;
    node->min = takes_left ? left.min : right.min;
}

/* Returns the weight of a transition whose priority was set. */
HD_INLINE double hd_priorities_make_weight(const struct hd_priorities_shape *shape, double priority)
{
    return pow(priority + HD_PRIORITIES_EPSILON, shape->alpha);
}

/* A child without weights is never entered, also where sums have rounded. */
HD_INLINE int64_t hd_priorities_find_leaf(const struct hd_priorities *priorities, int64_t leaves,
                                          double mass)
{
    int64_t i = 1;
    while (i < leaves) {
        const double left = hd_priorities_get_node(priorities, leaves, 2 * i).sum,
                     right = hd_priorities_get_node(priorities, leaves, 2 * i + 1).sum;
        const bool is_right = right > 0 && (mass >= left || left == 0);
        mass -= is_right ? left : 0;
        i = 2 * i + is_right;
    }
    return i - leaves;
}

/* Returns what hd_priorities_find does. */
HD_INLINE int64_t hd_priorities_find_share(const struct hd_priorities_shape *shape,
                                           const struct hd_priorities *priorities, double u)
{
    const int64_t leaves = hd_priorities_count_leaves(shape), newest = priorities->end - 1;
    const double sum = hd_priorities_get_node(priorities, leaves, 1).sum;
    const int64_t leaf = hd_priorities_find_leaf(priorities, leaves, u * sum);
    return newest - (newest + shape->capacity - leaf) % shape->capacity;
}

/* Returns what hd_priorities_compute_importance does: N and the sum of all weights cancel. */
HD_INLINE float hd_priorities_weigh(const struct hd_priorities_shape *shape,
                                    const struct hd_priorities *priorities, int64_t number,
                                    double beta)
{
    const int64_t leaves = hd_priorities_count_leaves(shape);
    const double min = hd_priorities_get_node(priorities, leaves, 1).min;
    return (float)pow(priorities->weight[number % shape->capacity] / min, -beta);
}
