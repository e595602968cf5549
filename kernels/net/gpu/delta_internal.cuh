/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives by activations in the backward pass and, in the same pass over memory, the sums of
 * their columns, which are the gradients of biases. A thread block adds a block of the rows for
 * some columns: each thread goes down HD_VECTOR columns, and the threads of a column add their sums
 * in a tree, so that sums are the same in every run. */
#pragma once

#include "kernels/net/gpu/vector_internal.cuh"

/* The arrangement of a block's threads: `across` side by side, the others below them. */
struct hd_sums_shape {
    int32_t across;
    int64_t rows, rows_of_block, width;
};

static inline struct hd_sums_shape hd_make_sums_shape(int64_t rows, int64_t width)
{
    struct hd_sums_shape shape = {1, rows, 0, width};
    while (shape.across < 32 && shape.across * HD_VECTOR < width)
        shape.across *= 2;
    const int64_t down = HD_THREADS / shape.across;
    const int64_t each = (rows + HD_GPU_ROW_BLOCKS - 1) / HD_GPU_ROW_BLOCKS;
    shape.rows_of_block = each > down ? each : down;
    return shape;
}

static inline dim3 hd_count_sums_blocks(const struct hd_sums_shape &shape)
{
    const int64_t columns = (int64_t)shape.across * HD_VECTOR;
    return dim3((unsigned)((shape.width + columns - 1) / columns), HD_GPU_ROW_BLOCKS);
}

/* Adds part[HD_THREADS][HD_VECTOR] over the threads of each column; the sums are in the first
 * `across` elements. */
static inline __device__ void hd_add_columns(float part[][HD_VECTOR], int32_t across)
{
    for (int32_t half = HD_THREADS / 2; half >= across; half /= 2) {
        __syncthreads();
        if ((int32_t)threadIdx.x < half)
            for (int e = 0; e < HD_VECTOR; e++)
                part[threadIdx.x][e] += part[threadIdx.x + half][e];
    }
}

/* `made` computes, stores and returns vector `column` of a row. */
template <class Made>
static __global__ void hd_sum_columns(const Made made, const struct hd_sums_shape shape,
                                      const struct hd_gpu_sums sums)
{
    HD_AWAIT_INPUTS();
    __shared__ float part[HD_THREADS][HD_VECTOR];
    const int64_t first = blockIdx.y * shape.rows_of_block;
    const int64_t end = first + shape.rows_of_block;
    const int64_t last = end < shape.rows ? end : shape.rows;
    const int64_t column =
        ((int64_t)blockIdx.x * shape.across + threadIdx.x % shape.across) * HD_VECTOR;
    const int64_t down = HD_THREADS / shape.across;
    float sum[HD_VECTOR] = {0};
    if (column < shape.width)
        for (int64_t row = first + threadIdx.x / shape.across; row < last; row += down) {
            const auto x = made(row, column);
#pragma unroll
            for (int e = 0; e < HD_VECTOR; e++)
                sum[e] += hd_to_float(x.e[e]);
        }
    for (int e = 0; e < HD_VECTOR; e++)
        part[threadIdx.x][e] = sum[e];
    hd_add_columns(part, shape.across);
    if ((int32_t)threadIdx.x >= shape.across || column >= shape.width)
        return;
    float *to = sums.sums + blockIdx.y * sums.stride + column;
    for (int e = 0; e < HD_VECTOR; e++)
        to[e] = (sums.add ? to[e] : 0.0f) + part[threadIdx.x][e];
}

template <class Made>
static int hd_launch_sums(const Made &made, int64_t rows, int64_t width,
                          const struct hd_gpu_sums &sums, void *stream)
{
    const struct hd_sums_shape shape = hd_make_sums_shape(rows, width);
    return HD_LAUNCH(hd_sum_columns<Made>, hd_count_sums_blocks(shape), HD_THREADS, stream, made,
                     shape, sums);
}

/* -- Without sums ------------------------------------------------------------------------------ */

/* Checks that vectors can be counted in 32 bits, because dividing larger numbers is slow. */
static inline int hd_check_vectors(int64_t vectors)
{
    return vectors <= INT32_MAX - HD_THREADS
               ? HD_OK
               : hd_fail(HD_ERR_UNSUPPORTED,
                         "activations too large for a GPU's passes: %lld numbers",
                         (long long)vectors * HD_VECTOR);
}

template <class Made>
static __global__ void hd_make_rows(const Made made, uint32_t vectors, uint32_t across)
{
    HD_AWAIT_INPUTS();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < vectors)
        made(i / across, i % across * HD_VECTOR);
}

/* Calls `made` for each vector of rows[rows][width]. */
template <class Made>
static int hd_launch_rows(const Made &made, int64_t rows, int64_t width, void *stream)
{
    const int64_t across = width / HD_VECTOR, vectors = rows * across;
    HD_TRY(hd_check_vectors(vectors));
    return HD_LAUNCH(hd_make_rows<Made>, hd_cuda_count_blocks(vectors), HD_THREADS, stream, made,
                     (uint32_t)vectors, (uint32_t)across);
}

/* -- Windows ----------------------------------------------------------------------------------- */

/* Calls visit(oy, ox, k) for the windows that a pixel lies in, as their element k, in the order of
 * the windows. */
template <class Visit>
static inline __device__ void hd_visit_windows(const struct hd_gpu_window &w, int32_t y, int32_t x,
                                               const Visit &visit)
{
    const int32_t down = y + w.padding, right = x + w.padding;
    const int32_t top = down < w.kernel ? 0 : (down - w.kernel) / w.stride + 1;
    const int32_t left = right < w.kernel ? 0 : (right - w.kernel) / w.stride + 1;
    for (int32_t oy = top; oy < w.out_height && oy * w.stride <= down; oy++)
        for (int32_t ox = left; ox < w.out_width && ox * w.stride <= right; ox++)
            visit(oy, ox, (down - oy * w.stride) * w.kernel + right - ox * w.stride);
}

/* -- What hd_gpu_delta says -------------------------------------------------------------------- */

/* `from` computes a vector's derivatives in floats; X is the type of the activations. */
template <class T, class X, class From> struct hd_delta_made {
    From from;
    T *dx;
    const X *x;
    int64_t width;
    bool add, stored;

    __device__ hd_vector<T> operator()(int64_t row, int64_t column) const
    {
        const int64_t at = row * width + column;
        float sum[HD_VECTOR];
        hd_vector<T> result;
        from(row, column, sum);
        if (x) {
            const hd_vector<X> y = hd_load(x + at);
#pragma unroll
            for (int e = 0; e < HD_VECTOR; e++)
                sum[e] = hd_to_float(y.e[e]) > 0.0f ? sum[e] : 0.0f;
        }
        if (add) {
            const hd_vector<T> before = hd_load(dx + at);
#pragma unroll
            for (int e = 0; e < HD_VECTOR; e++)
                sum[e] = hd_to_float(before.e[e]) + sum[e];
        }
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            result.e[e] = hd_from_float<T>(sum[e]);
        if (stored)
            hd_store(dx + at, result);
        return result;
    }
};

/* Computes derivatives in rows[rows][width] by from(row, column, sum[HD_VECTOR]). `stored` is false
 * if they are there already. */
template <class T, class X, class From>
static int hd_launch_delta(const struct hd_gpu_delta *delta, const From &from, int64_t rows,
                           int64_t width, bool stored, void *stream)
{
    const hd_delta_made<T, X, From> made = {from,  (T *)delta->dx, (const X *)delta->x,
                                            width, delta->add,     stored};
    return delta->sums.sums ? hd_launch_sums(made, rows, width, delta->sums, stream)
                            : hd_launch_rows(made, rows, width, stream);
}
