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

/* Returns an output that is not a bias alone, without it; lane 0 has the result. */
static inline __device__ float multiply(const struct hd_gpu_heads &heads, int64_t row, int32_t a)
{
    for (int32_t s = 0; s < heads.n_streams; s++) {
        const struct hd_gpu_stream &in = heads.streams[s];
        if (a >= in.first && a < in.end)
            return dot(in.hidden + row * in.ld + in.from, in.weight + (a - in.first) * in.ld_weight,
                       in.width);
    }
    return 0.0f;
}

static __global__ void forward(const __grid_constant__ struct hd_gpu_heads heads, const float *bias,
                               float *q)
{
    HD_AWAIT_INPUTS();
    __shared__ float value, mean;
    const int32_t actions = heads.actions;
    float *to = q + (int64_t)blockIdx.x * (heads.dueling ? actions : heads.outputs);
    for (int32_t a = (int32_t)threadIdx.x / WARP; a < heads.outputs; a += HD_THREADS / WARP) {
        const float y = multiply(heads, blockIdx.x, a) + bias[a];
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
                                    const float *bias, float *q, void *stream)
{
    return HD_LAUNCH(forward, (unsigned)rows, HD_THREADS, stream, *heads, bias, q);
}
