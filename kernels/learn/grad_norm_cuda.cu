/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"
#include "kernels/common/partials.cuh"

extern "C" {
#include "kernels/learn/grad_norm.h"
#include "runtime/base/hash.h"
}

typedef hd_partials_tree<1> grad_partials;

enum { LANES = 16 }; /* chains, as on a CPU */

template <int W, int ROWS>
static __device__ void read_elements(const grad_partials &partials, int64_t i, float *to)
{
    hd_partials_node<W> grad = hd_partials_sum<W, ROWS>(partials, i);
    hd_partials_divide(&grad);
    hd_floats_store(to, grad.floats);
}

/* Writes the mean of elements [at, at + n) to tile[n]. */
template <int W, int ROWS>
static __device__ void read_block(const grad_partials &partials, int64_t at, int n, float *tile)
{
    for (int i = (int)threadIdx.x * W; i < n; i += HD_THREADS * W)
        if (i + W <= n)
            read_elements<W, ROWS>(partials, at + i, tile + i);
        else
            for (int k = i; k < n; k++)
                read_elements<1, ROWS>(partials, at + k, tile + k);
}

/* Does the same for one partial, whose element i is floats[gpu_at[i]], or zero where that is
 * negative. */
static __device__ void read_block_in_gpu_order(const struct hd_partials &grad,
                                               const int32_t *gpu_at, int n, float *tile)
{
    const float samples = *grad.counts;
#pragma unroll 8
    for (int i = (int)threadIdx.x; i < n; i += HD_THREADS) {
        const int32_t at = gpu_at[i];
        hd_partials_node<1> node = {{{at < 0 ? 0.0f : grad.floats[at]}}, samples};
        hd_partials_divide(&node);
        tile[i] = node.floats.at[0];
    }
}

template <int W, int ROWS>
static __global__ void square_blocks(const __grid_constant__ grad_partials partials,
                                     const int32_t *gpu_at, int64_t lo, int64_t hi, double *blocks)
{
    HD_AWAIT_INPUTS();
    alignas(16) __shared__ float tile[HD_BLOCK];
    __shared__ double chains[LANES];
    const int64_t at = lo + (int64_t)blockIdx.x * HD_BLOCK;
    const int n = hi - at < HD_BLOCK ? (int)(hi - at) : (int)HD_BLOCK;
    const int lane = (int)threadIdx.x;
    if (gpu_at)
        read_block_in_gpu_order(partials.group[0], gpu_at + at, n, tile);
    else
        read_block<W, ROWS>(partials, at, n, tile);
    __syncthreads();
    if (lane < LANES) {
        double sum = 0;
#pragma unroll 8
        for (int i = lane; i < n; i += LANES)
            sum += (double)tile[i] * tile[i];
        chains[lane] = sum;
    }
    __syncthreads();
    if (lane == 0) {
        double sum = 0;
        for (int l = 0; l < LANES; l++)
            sum += chains[l];
        blocks[at / HD_BLOCK] = sum;
    }
}

extern "C" int hd_grad_norm_sum_squares_cuda(const struct hd_partials *grad, const int32_t *gpu_at,
                                             int64_t lo, int64_t hi, double *blocks, void *stream)
{
    static void (*const variants[])(grad_partials, const int32_t *, int64_t, int64_t, double *) =
        HD_PARTIALS_VARIANTS(square_blocks);
    grad_partials partials;
    HD_TRY(hd_partials_tree_make(1, grad, lo, &partials));
    if (lo >= hi)
        return HD_OK;
    const auto squares = variants[hd_partials_find_variant(partials.rows, partials.wide).index];
    const unsigned grid = (unsigned)((hi - lo + HD_BLOCK - 1) / HD_BLOCK);
    return HD_LAUNCH(squares, grid, HD_THREADS, stream, partials, gpu_at, lo, hi, blocks);
}

/* -- The tree over the blocks ------------------------------------------------------------------ */

enum { WAITING = 64 }; /* pending sums of any tree, at most */

/* Returns the sum of blocks[n] in tree order; 0 if there are none, which changes no sum of
 * squares. */
static __device__ double sum_serially(const double *blocks, int64_t n)
{
    double stack[WAITING], sum = 0;
    int waiting = 0;
    for (int64_t i = 0; i < n; i++) {
        sum = blocks[i];
        for (int sums = hd_tree_count_sums(i, n); sums > 0; sums--)
            sum = stack[--waiting] + sum;
        stack[waiting++] = sum;
    }
    return sum;
}

/* Thread t adds the subtree to which the bits of t lead, downwards from the root, the highest bit
 * first. A node of one partial has an empty left child. */
static __global__ void push_norm(const double *blocks, int64_t n, struct hd_scalar_slot norm)
{
    HD_AWAIT_INPUTS();
    __shared__ double nodes[HD_THREADS];
    const int t = (int)threadIdx.x;
    int64_t lo = 0;
    for (int bit = HD_THREADS / 2; bit > 0; bit /= 2) {
        const int64_t half = n / 2;
        lo += t & bit ? half : 0;
        n = t & bit ? n - half : half;
    }
    nodes[t] = sum_serially(blocks + lo, n);
    for (int width = HD_THREADS / 2; width > 0; width /= 2) {
        double sum = 0;
        __syncthreads();
        if (t < width)
            sum = nodes[2 * t] + nodes[2 * t + 1];
        __syncthreads();
        if (t < width)
            nodes[t] = sum;
    }
    if (t > 0)
        return;
    *norm.entry = {sqrt(nodes[0]), 1};
    ++*norm.pushes;
}

extern "C" int hd_grad_norm_push_cuda(const double *blocks, int64_t n, struct hd_scalar_slot norm,
                                      void *stream)
{
    return HD_LAUNCH(push_norm, 1, HD_THREADS, stream, blocks, n, norm);
}
