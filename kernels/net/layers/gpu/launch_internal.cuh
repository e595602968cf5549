/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of layers on GPUs: a kernel for arrays whose elements are computed one by one, one for
 * sums, and products of matrices. A dry run only prepares products. */
#ifndef HD_KERNELS_NET_LAYERS_GPU_LAUNCH_INTERNAL_CUH
#define HD_KERNELS_NET_LAYERS_GPU_LAUNCH_INTERNAL_CUH

#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/net/gpu/gemm.h"
#include "kernels/net/layers/layer.h"
}

static inline int64_t hd_layer_count_in(const struct hd_layer_run *run)
{
    return run->rows * hd_shape_count(&run->layer->in);
}

static inline int64_t hd_layer_count_out(const struct hd_layer_run *run)
{
    return run->rows * hd_shape_count(&run->layer->out);
}

/* -- Elements ---------------------------------------------------------------------------------- */

template <class Element, class T>
static __global__ void hd_layer_compute(const Element element, uint32_t n, T *to)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = element(i);
}

/* Computes to[i] = element(i), i < n. Indices have 32 bits, because dividing larger ones is slow.
 */
template <class Element, class T>
static int hd_layer_map(const struct hd_layer_run *run, const Element &element, int64_t n, T *to)
{
    if (n > INT32_MAX - HD_THREADS)
        return hd_fail(HD_ERR_UNSUPPORTED,
                       "%s: a GPU computes up to 2^31 numbers at a time, here %lld",
                       run->layer->type->name, (long long)n);
    if (run->dry_run)
        return HD_OK;
    return HD_LAUNCH((hd_layer_compute<Element, T>), hd_cuda_count_blocks(n), HD_THREADS,
                     run->stream, element, (uint32_t)n, to);
}

/* -- Sums -------------------------------------------------------------------------------------- */

/* The arrangement of n sums of `terms` terms each. A thread block has threads for `across` sums
 * side by side and adds `each` of their terms; `blocks` blocks share all terms of a sum. */
struct hd_layer_sums {
    int64_t n, terms, each;
    int across, blocks;
};

enum {
    HD_LAYER_SUM_BLOCKS = 128,
    HD_LAYER_SUM_EACH = 8 /* terms of a thread, if there are many */
};

/* Terms of one sum are neighbours in memory if `lone`, else terms of neighbouring sums are. */
static inline struct hd_layer_sums hd_layer_make_sums(int64_t n, int64_t terms, bool lone)
{
    struct hd_layer_sums sums = {n, terms, terms, lone ? 1 : 32, 1};
    const int64_t some = (int64_t)(HD_THREADS / sums.across) * HD_LAYER_SUM_EACH;
    const int64_t blocks = terms > 0 ? (terms + some - 1) / some : 1;
    sums.blocks = blocks < HD_LAYER_SUM_BLOCKS ? (int)blocks : (int)HD_LAYER_SUM_BLOCKS;
    sums.each = (terms + sums.blocks - 1) / sums.blocks;
    return sums;
}

/* Returns the floats of scratch that the sums need. */
static inline int64_t hd_layer_count_sums_scratch(const struct hd_layer_sums &sums)
{
    return sums.blocks > 1 ? sums.blocks * sums.n : 0;
}

/* Each thread adds terms in their order, then a tree the threads' sums. */
template <class Term>
static __global__ void hd_layer_add_terms(const Term term, const struct hd_layer_sums sums,
                                          float *to)
{
    __shared__ float part[HD_THREADS];
    const int thread = (int)threadIdx.x, down = HD_THREADS / sums.across;
    const int64_t i = (int64_t)blockIdx.x * sums.across + thread % sums.across;
    const int64_t first = blockIdx.y * sums.each, end = first + sums.each;
    const int64_t last = end < sums.terms ? end : sums.terms;
    float sum = 0;
    if (i < sums.n)
        for (int64_t t = first + thread / sums.across; t < last; t += down)
            sum += term((uint32_t)i, (uint32_t)t);
    part[thread] = sum;
    for (int half = down / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half * sums.across)
            part[thread] += part[thread + half * sums.across];
    }
    if (thread < sums.across && i < sums.n)
        to[blockIdx.y * sums.n + i] = part[thread];
}

/* Term `row` of the sum over rows of column i. */
struct hd_layer_column {
    const float *x;
    int64_t width;

    __device__ float operator()(uint32_t i, uint32_t row) const
    {
        return x[row * width + i];
    }
};

/* Element i of the sums of all blocks, added in order. */
struct hd_layer_blocks {
    const float *parts;
    int64_t n;
    int blocks;

    __device__ float operator()(uint32_t i) const
    {
        float sum = 0;
        for (int block = 0; block < blocks; block++)
            sum += parts[block * n + i];
        return sum;
    }
};

/* Computes to[i] = the sum over t of term(i, t). */
template <class Term>
static int hd_layer_sum(const struct hd_layer_run *run, const Term &term,
                        const struct hd_layer_sums &sums, float *scratch, float *to)
{
    const unsigned across = (unsigned)((sums.n + sums.across - 1) / sums.across);
    if (run->dry_run)
        return HD_OK;
    HD_TRY(HD_LAUNCH(hd_layer_add_terms<Term>, dim3(across, (unsigned)sums.blocks), HD_THREADS,
                     run->stream, term, sums, sums.blocks > 1 ? scratch : to));
    if (sums.blocks == 1)
        return HD_OK;
    return hd_layer_map(run, hd_layer_blocks{scratch, sums.n, sums.blocks}, sums.n, to);
}

/* -- Products ---------------------------------------------------------------------------------- */

/* A product of matrices of floats without gaps. */
static inline struct hd_gemm hd_layer_make_gemm(int64_t m, int64_t n, int64_t k, bool transpose_a,
                                                bool transpose_b)
{
    struct hd_gemm gemm = {};
    gemm.m = m;
    gemm.n = n;
    gemm.k = k;
    gemm.ld_a = transpose_a ? m : k;
    gemm.ld_b = transpose_b ? k : n;
    gemm.ld_c = n;
    gemm.transpose_a = transpose_a;
    gemm.transpose_b = transpose_b;
    return gemm;
}

/* y[m][out] = x[m][in] weight[out][in], transposed, plus the bias. */
static inline int hd_layer_multiply_forward(const struct hd_layer_run *run, int64_t m, int64_t in,
                                            int64_t out, const float *x, float *y)
{
    struct hd_gemm gemm = hd_layer_make_gemm(m, out, in, false, true);
    gemm.epilogue = HD_GEMM_BIAS;
    return run->multiply(run, &gemm, x, run->weight, run->bias, y);
}

/* dx[m][in] = dy[m][out] weight[out][in]. */
static inline int hd_layer_multiply_data(const struct hd_layer_run *run, int64_t m, int64_t in,
                                         int64_t out, const float *dy, float *dx)
{
    const struct hd_gemm gemm = hd_layer_make_gemm(m, in, out, false, false);
    return run->multiply(run, &gemm, dy, run->weight, NULL, dx);
}

/* dweight[out][in] = dy[m][out], transposed, x[m][in]; added to what is there if `add`. */
static inline int hd_layer_multiply_weights(const struct hd_layer_run *run, int64_t m, int64_t in,
                                            int64_t out, const float *dy, const float *x, bool add)
{
    struct hd_gemm gemm = hd_layer_make_gemm(out, in, m, true, false);
    gemm.add = add;
    return run->multiply(run, &gemm, dy, x, NULL, run->dweight);
}

#endif
