/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/net/list/gpu/steps_internal.h"
}

static __global__ void add(int64_t n, const float *a, const float *b, float *to)
{
    const int64_t i = HD_ELEMENT;
    if (i < n)
        to[i] = a ? a[i] + b[i] : b[i];
}

extern "C" int hd_list_add_cuda(int64_t n, const float *a, const float *b, float *to, void *stream)
{
    return HD_LAUNCH(add, hd_cuda_count_blocks(n), HD_THREADS, stream, n, a, b, to);
}

static inline __device__ float add_up(int32_t n, const float *x)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* A thread computes a row, which has few numbers. */
static __global__ void combine(const struct hd_list_heads heads, int64_t rows, float *q)
{
    const int64_t row = HD_ELEMENT;
    if (row >= rows)
        return;
    const float *a = heads.actions + row * heads.n_actions;
    float *to = q + row * heads.outputs, shift = 0;
    if (heads.dueling)
        shift = heads.value[row] - add_up(heads.n_actions, a) / (float)heads.n_actions;
    for (int32_t i = 0; i < heads.n_actions; i++)
        to[i] = a[i] + shift;
    if (heads.outputs > heads.n_actions)
        to[heads.n_actions] = heads.value[row];
}

extern "C" int hd_list_combine_heads_cuda(const struct hd_list_heads *heads, int64_t rows, float *q,
                                          void *stream)
{
    return HD_LAUNCH(combine, hd_cuda_count_blocks(rows), HD_THREADS, stream, *heads, rows, q);
}

static __global__ void split(const struct hd_list_heads heads, int64_t rows, const float *dq)
{
    const int64_t row = HD_ELEMENT;
    if (row >= rows)
        return;
    const float *from = dq + row * heads.outputs;
    float *da = heads.actions + row * heads.n_actions;
    const float sum = heads.dueling ? add_up(heads.n_actions, from) : 0;
    for (int32_t i = 0; i < heads.n_actions; i++)
        da[i] = from[i] - sum / (float)heads.n_actions;
    if (heads.value)
        heads.value[row] = heads.dueling ? sum : from[heads.n_actions];
}

extern "C" int hd_list_split_heads_cuda(const struct hd_list_heads *heads, int64_t rows,
                                        const float *dq, void *stream)
{
    return HD_LAUNCH(split, hd_cuda_count_blocks(rows), HD_THREADS, stream, *heads, rows, dq);
}
