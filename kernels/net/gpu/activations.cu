/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that compute each number by itself, by the formulas of the CPU's.
 */
#include "kernels/net/gpu/delta_internal.cuh"

extern "C" {
#include "kernels/net/gpu/layers.h"
}
#include "kernels/net/layers/smooth.h"

struct rectified {
    static __device__ float compute(float x)
    {
        return x <= 0 ? 0 : x;
    }

    static __device__ float differentiate(float x, float dy)
    {
        return x <= 0 ? 0 : dy;
    }
};

struct hyperbolic_tangent {
    static __device__ float compute(float x)
    {
        return hd_tanh_compute(x);
    }

    static __device__ float differentiate(float x, float dy)
    {
        const float y = hd_tanh_compute(x);
        return dy * (1 - y * y);
    }
};

struct gaussian_linear {
    static __device__ float compute(float x)
    {
        return x * hd_gauss_compute(x).distribution;
    }

    static __device__ float differentiate(float x, float dy)
    {
        const struct hd_gauss gauss = hd_gauss_compute(x);
        return dy * (gauss.distribution + x * gauss.density);
    }
};

template <class T, class F> struct applied {
    const T *x;
    T *y;

    __device__ void operator()(int64_t, int64_t at) const
    {
        hd_vector<T> v = hd_load(x + at);
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            v.e[e] = hd_from_float<T>(F::compute(hd_to_float(v.e[e])));
        hd_store(y + at, v);
    }
};

template <class F> static int forward(const struct hd_gpu_run *run)
{
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        return hd_launch_rows(applied<T, F>{(const T *)run->x, (T *)run->y}, 1,
                              run->rows * hd_gpu_count_row(&run->in), run->stream);
    });
}

template <class T, class F> struct derived {
    const T *x, *dy;
    int64_t width;

    __device__ void operator()(int64_t row, int64_t column, float sum[HD_VECTOR]) const
    {
        const hd_vector<T> at = hd_load(x + row * width + column);
        const hd_vector<T> d = hd_load(dy + row * width + column);
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            sum[e] = F::differentiate(hd_to_float(at.e[e]), hd_to_float(d.e[e]));
    }
};

template <class F> static int backward_data(const struct hd_gpu_run *run)
{
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        const derived<T, F> from = {(const T *)run->x, (const T *)run->dy, run->in.stored};
        return hd_launch_delta<T, T>(&run->dx, from, run->rows * run->in.pixels, run->in.stored,
                                     true, run->stream);
    });
}

const struct hd_layer_on_gpu hd_relu_on_gpu = {NULL, forward<rectified>, backward_data<rectified>,
                                               NULL};
const struct hd_layer_on_gpu hd_tanh_on_gpu = {NULL, forward<hyperbolic_tangent>,
                                               backward_data<hyperbolic_tangent>, NULL};
const struct hd_layer_on_gpu hd_gelu_on_gpu = {NULL, forward<gaussian_linear>,
                                               backward_data<gaussian_linear>, NULL};
