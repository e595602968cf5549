/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/common/partials.cuh"

typedef hd_partials_tree<HD_PARTIALS_GROUPS> tree_of_groups;

template <int W, int ROWS>
static __device__ void add_elements(const tree_of_groups &tree, bool mean, int64_t i, bool first,
                                    float *to, float *count)
{
    hd_partials_node<W> node = hd_partials_sum<W, ROWS>(tree, i);
    if (first && count)
        *count = node.samples;
    if (mean)
        hd_partials_divide(&node);
    hd_floats_store(to + i, node.floats);
}

template <int W, int ROWS>
static __global__ void add_partials(const __grid_constant__ tree_of_groups tree, bool mean,
                                    int64_t lo, int64_t hi, float *to, float *count)
{
    HD_AWAIT_INPUTS();
    int64_t i = lo + HD_ELEMENT * W;
    if (i + W <= hi)
        add_elements<W, ROWS>(tree, mean, i, i == lo, to, count);
    else
        for (; i < hi; i++)
            add_elements<1, ROWS>(tree, mean, i, i == lo, to, count);
}

extern "C" int hd_partials_mean_cuda(int groups, const struct hd_partials *group, bool mean,
                                     int64_t lo, int64_t hi, float *to, float *count, void *stream)
{
    static void (*const variants[])(tree_of_groups, bool, int64_t, int64_t, float *, float *) =
        HD_PARTIALS_VARIANTS(add_partials);
    tree_of_groups tree;
    HD_TRY(hd_partials_tree_make(groups, group, lo, &tree));
    if (lo >= hi)
        return HD_OK;
    const struct hd_partials_variant variant =
        hd_partials_find_variant(tree.rows, tree.wide && hd_partials_are_aligned(to + lo));
    const auto sum_partials = variants[variant.index];
    const unsigned blocks = hd_cuda_count_blocks((hi - lo + variant.width - 1) / variant.width);
    return HD_LAUNCH(sum_partials, blocks, HD_THREADS, stream, tree, mean, lo, hi, to, count);
}
