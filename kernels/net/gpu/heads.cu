/* SPDX-License-Identifier: Apache-2.0 */
/* The output layers and their outputs: a thread block for each row, a warp for each output. */
#include "kernels/net/gpu/vector_internal.cuh"

enum { WARP = 32 };

/* Adds in 32 chains, then pairs of halves; lane 0 has the result. */
static inline __device__ float dot(const float *x, const float *y, int32_t n)
{
    float sum = 0;
    for (int32_t i = (int32_t)threadIdx.x % WARP; i < n; i += WARP)
        sum = fmaf(x[i], y[i], sum);
    for (int32_t half = WARP / 2; half > 0; half /= 2)
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, half);
    return sum;
}

static __global__ void forward(const struct hd_gpu_heads heads, const float *hidden,
                               const float *weight, const float *bias, float *q)
{
    __shared__ float value, mean;
    const int32_t actions = heads.actions, outputs = hd_gpu_count_head_outputs(&heads);
    const float *row = hidden + blockIdx.x * heads.ld_hidden;
    float *to = q + (int64_t)blockIdx.x * (heads.dueling ? actions : outputs);
    for (int32_t a = (int32_t)threadIdx.x / WARP; a < outputs; a += HD_THREADS / WARP) {
        const float *x = a < actions ? row : row + heads.width;
        const float y = dot(x, weight + a * heads.ld_weight, heads.width) + bias[a];
        if (threadIdx.x % WARP != 0)
            continue;
        if (heads.dueling && a == actions)
            value = y;
        else
            to[a] = y;
    }
    if (!heads.dueling)
        return;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int32_t a = 0; a < actions; a++)
            sum += to[a];
        mean = sum / (float)actions;
    }
    __syncthreads();
    for (int32_t a = (int32_t)threadIdx.x; a < actions; a += HD_THREADS)
        to[a] += value - mean;
}

extern "C" int hd_gpu_heads_forward(const struct hd_gpu_heads *heads, int64_t rows,
                                    const float *hidden, const float *weight, const float *bias,
                                    float *q, void *stream)
{
    return HD_LAUNCH(forward, (unsigned)rows, HD_THREADS, stream, *heads, hidden, weight, bias, q);
}
