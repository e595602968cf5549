/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between the flat array and the order in which a GPU multiplies. */
#include "kernels/common/tiles.cuh"
#include "kernels/net/gpu/vector_internal.cuh"

/* A step of the walk that reads the parameters as they are. */
struct refresh_step {
    typedef float element;
    const float *floats;

    __device__ float read(int64_t i) const
    {
        return floats[i];
    }

    __device__ float compute(int64_t, float param, float) const
    {
        return param;
    }
};

template <class T>
static __global__ void refresh(const __grid_constant__ struct hd_tiles tiles, int64_t lo,
                               int64_t hi)
{
    HD_AWAIT_INPUTS();
    hd_tiles_renew<T>(tiles, lo, hi, NULL, refresh_step{tiles.floats});
}

extern "C" int hd_gpu_refresh_shadow(const struct hd_tiles *tiles, int64_t lo, int64_t hi,
                                     void *stream)
{
    return hd_dispatch_type(tiles->bf16, [&](auto type) {
        return HD_LAUNCH(refresh<decltype(type)>, (unsigned)tiles->n, HD_THREADS, stream, *tiles,
                         lo, hi);
    });
}

static __global__ void gather_gradient(const int32_t *at, int64_t lo, int64_t hi,
                                       const float *gradient, float *grad)
{
    HD_AWAIT_INPUTS();
    const int64_t i = lo + HD_ELEMENT;
    if (i < hi)
        grad[i] = at[i] < 0 ? 0 : gradient[at[i]];
}

extern "C" int hd_gpu_gather_gradient(const int32_t *at, int64_t lo, int64_t hi,
                                      const float *gradient, float *grad, void *stream)
{
    if (lo >= hi)
        return HD_OK;
    return HD_LAUNCH(gather_gradient, hd_cuda_count_blocks(hi - lo), HD_THREADS, stream, at, lo, hi,
                     gradient, grad);
}

static __global__ void finish_sums(const float *sums, int64_t stride, int64_t first, int64_t end,
                                   float *to)
{
    HD_AWAIT_INPUTS();
    const int64_t column = first + HD_ELEMENT;
    if (column >= end)
        return;
    float x = 0;
#pragma unroll 32
    for (int c = 0; c < HD_GPU_ROW_BLOCKS; c++)
        x += sums[c * stride + column];
    to[column] = x;
}

extern "C" int hd_gpu_finish_sums(const float *sums, int64_t stride, int64_t first, int64_t end,
                                  float *to, void *stream)
{
    return HD_LAUNCH(finish_sums, hd_cuda_count_blocks(end - first), HD_THREADS, stream, sums,
                     stride, first, end, to);
}
