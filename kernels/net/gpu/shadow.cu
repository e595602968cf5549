/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between the flat array and the order in which a GPU multiplies. */
#include "kernels/net/gpu/vector_internal.cuh"

/* Each thread block converts a tile. It reads blocks of the flat array, which span several rows of
 * a matrix, and the elements of the next row are then still in the cache. */
template <class T>
static __global__ void refresh(const struct hd_gpu_shadow shadow, const float *floats, int64_t lo,
                               int64_t hi, T *narrow, float *wide)
{
    const struct hd_gpu_matrix *m = shadow.matrices + shadow.n_matrices - 1;
    while (m->tiles_before > (int64_t)blockIdx.x)
        m--;
    const int64_t tile = blockIdx.x - m->tiles_before;
    const int64_t across = (m->columns + HD_GPU_TILE - 1) / HD_GPU_TILE;
    const int64_t column = tile % across * HD_GPU_TILE + threadIdx.x % HD_GPU_TILE;
    const int64_t top = tile / across * HD_GPU_TILE;
    for (int64_t row = top + threadIdx.x / HD_GPU_TILE;
         row < m->rows && row < top + HD_GPU_TILE && column < m->columns;
         row += HD_THREADS / HD_GPU_TILE) {
        const int64_t at = m->at + row * m->columns + column;
        const int32_t from = shadow.from[at];
        if (from >= 0 && (from < lo || from >= hi))
            continue;
        const float x = from < 0 ? 0.0f : floats[from];
        if (at < shadow.narrow)
            narrow[at] = hd_from_float<T>(x);
        else
            wide[at - shadow.narrow] = x;
    }
}

extern "C" int hd_gpu_refresh_shadow(const struct hd_gpu_shadow *shadow, const float *floats,
                                     int64_t lo, int64_t hi, bool bf16, void *narrow, float *wide,
                                     void *stream)
{
    return hd_dispatch_type(bf16, [&](auto type) {
        using T = decltype(type);
        return HD_LAUNCH(refresh<T>, (unsigned)shadow->tiles, HD_THREADS, stream, *shadow, floats,
                         lo, hi, (T *)narrow, wide);
    });
}

static __global__ void gather_gradient(const int32_t *at, int64_t lo, int64_t hi,
                                       const float *gradient, int64_t n_gradient, const float *sums,
                                       int64_t stride, float *grad)
{
    const int64_t i = lo + HD_ELEMENT;
    if (i >= hi)
        return;
    const int64_t from = at[i];
    float x = 0;
    if (from >= n_gradient)
#pragma unroll 8
        for (int c = 0; c < HD_GPU_ROW_BLOCKS; c++)
            x += sums[c * stride + from - n_gradient];
    else if (from >= 0)
        x = gradient[from];
    grad[i] = x;
}

extern "C" int hd_gpu_gather_gradient(const int32_t *at, int64_t lo, int64_t hi,
                                      const float *gradient, int64_t n_gradient, const float *sums,
                                      int64_t stride, float *grad, void *stream)
{
    if (lo >= hi)
        return HD_OK;
    return HD_LAUNCH(gather_gradient, hd_cuda_count_blocks(hi - lo), HD_THREADS, stream, at, lo, hi,
                     gradient, n_gradient, sums, stride, grad);
}
