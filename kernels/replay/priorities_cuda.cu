/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of the tree of priorities by one thread block: leaves, then their ancestors level by
 * level. Every node is computed by one thread. */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/replay/priorities_internal.h"
}

enum { THREADS = 512 };

struct tree {
    struct hd_priorities_shape shape;
    struct hd_priorities *p;
};

/* -- Ranges ------------------------------------------------------------------------------------ */

/* Sets leaves lo ... hi - 1 and renews the nodes above. All threads call it. */
static __device__ void set_leaves(const struct tree &tree, int64_t lo, int64_t hi, double weight)
{
    const int64_t leaves = hd_priorities_count_leaves(&tree.shape);
    for (int64_t i = lo + threadIdx.x; i < hi; i += THREADS)
        tree.p->weight[i] = weight;
    for (int64_t a = (lo + leaves) / 2, b = (hi - 1 + leaves) / 2; a >= 1; a /= 2, b /= 2) {
        __syncthreads();
        for (int64_t i = a + threadIdx.x; i <= b; i += THREADS)
            hd_priorities_compute_node(tree.p, leaves, i);
    }
    __syncthreads();
}

/* Sets transitions first ... end - 1, which are at most the capacity. */
static __device__ void set_numbers(const struct tree &tree, int64_t first, int64_t end,
                                   double weight)
{
    const int64_t capacity = tree.shape.capacity, lo = first % capacity, hi = lo + end - first;
    if (first >= end)
        return;
    set_leaves(tree, lo, hi < capacity ? hi : capacity, weight);
    if (hi > capacity)
        set_leaves(tree, 0, hi - capacity, weight);
}

static __global__ void push(const struct tree tree, const int64_t *first_p, const int64_t *end_p)
{
    HD_AWAIT_INPUTS();
    struct hd_priorities *p = tree.p;
    const int64_t first = *first_p, end = *end_p, old_first = p->first, old_end = p->end;
    const double max = p->max_priority == 0 ? 1 : p->max_priority;
    set_numbers(tree, old_first, first < old_end ? first : old_end, 0);
    set_numbers(tree, old_end > first ? old_end : first, end, pow(max, tree.shape.alpha));
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    p->first = first > old_first ? first : old_first;
    p->end = end > old_end ? end : old_end;
    p->max_priority = max;
}

extern "C" int hd_priorities_push_cuda(const struct hd_priorities_shape *shape,
                                       struct hd_priorities *priorities, const int64_t *first_p,
                                       const int64_t *end_p, void *stream)
{
    const struct tree tree = {*shape, priorities};
    return HD_LAUNCH(push, 1, THREADS, stream, tree, first_p, end_p);
}

/* -- Rows of a batch --------------------------------------------------------------------------- */

static __device__ float get_error(const struct hd_priorities_errors &of, int64_t row)
{
    return of.errors[row / of.micro * of.ld + row % of.micro];
}

/* Returns the leaf that a row changes, or -1. */
static __device__ int64_t find_leaf(const struct tree &tree, const struct hd_priorities_errors &of,
                                    int64_t row)
{
    const int64_t number = of.number[row];
    const bool held = number >= tree.p->first && number < tree.p->end;
    return row < *of.used && held && isfinite(get_error(of, row)) ? number % tree.shape.capacity
                                                                  : -1;
}

/* Returns whether a row of [from, to) changes a leaf below this node, `level` levels up. */
static __device__ bool is_below(const int64_t *leaf, int64_t from, int64_t to, int64_t leaves,
                                int level, int64_t node)
{
    for (int64_t r = from; r < to; r++)
        if (leaf[r] >= 0 && (leaf[r] + leaves) >> level == node)
            return true;
    return false;
}

/* Raises max_priority to the largest error of the rows that change a leaf. */
static __device__ void raise_max(const struct tree &tree, const struct hd_priorities_errors &of,
                                 const int64_t *leaf)
{
    __shared__ double max[THREADS];
    const int at = (int)threadIdx.x;
    max[at] = 0;
    for (int64_t r = at; r < of.rows; r += THREADS)
        max[at] = leaf[r] >= 0 ? fmax(max[at], (double)get_error(of, r)) : max[at];
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at < half)
            max[at] = fmax(max[at], max[at + half]);
    }
    if (at == 0)
        tree.p->max_priority = fmax(tree.p->max_priority, max[0]);
}

/* The last one of the rows of a transition counts, and the first one computes the nodes above. */
static __global__ void set(const struct tree tree, const struct hd_priorities_errors of)
{
    HD_AWAIT_INPUTS();
    __shared__ int64_t leaf[HD_PRIORITIES_ROWS];
    const int64_t leaves = hd_priorities_count_leaves(&tree.shape);
    for (int64_t r = threadIdx.x; r < of.rows; r += THREADS)
        leaf[r] = find_leaf(tree, of, r);
    __syncthreads();
    for (int64_t r = threadIdx.x; r < of.rows; r += THREADS)
        if (leaf[r] >= 0 && !is_below(leaf, r + 1, of.rows, leaves, 0, leaf[r] + leaves))
            tree.p->weight[leaf[r]] = hd_priorities_make_weight(&tree.shape, get_error(of, r));
    for (int level = 1; leaves >> level >= 1; level++) {
        __syncthreads();
        for (int64_t r = threadIdx.x; r < of.rows; r += THREADS) {
            const int64_t node = (leaf[r] + leaves) >> level;
            if (leaf[r] >= 0 && !is_below(leaf, 0, r, leaves, level, node))
                hd_priorities_compute_node(tree.p, leaves, node);
        }
    }
    raise_max(tree, of, leaf);
}

extern "C" int hd_priorities_set_cuda(const struct hd_priorities_shape *shape,
                                      struct hd_priorities *priorities,
                                      const struct hd_priorities_errors *errors, void *stream)
{
    const struct tree tree = {*shape, priorities};
    return HD_LAUNCH(set, 1, THREADS, stream, tree, *errors);
}
