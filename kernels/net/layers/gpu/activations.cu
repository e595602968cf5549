/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that compute each number by itself, by the formulas of the CPU's. */
#include "kernels/net/layers/gpu/launch_internal.cuh"
#include "kernels/net/layers/smooth.h"

template <class F> struct forward_element {
    const float *x;

    __device__ float operator()(uint32_t i) const
    {
        return F::compute(x[i]);
    }
};

template <class F> struct backward_element {
    const float *x, *y, *dy;

    __device__ float operator()(uint32_t i) const
    {
        return F::differentiate(x[i], y[i], dy[i]);
    }
};

template <class F> static int forward(const struct hd_layer_run *run)
{
    return hd_layer_map(run, forward_element<F>{run->x}, hd_layer_count_in(run), run->to);
}

template <class F> static int backward_data(const struct hd_layer_run *run)
{
    return hd_layer_map(run, backward_element<F>{run->x, run->y, run->dy}, hd_layer_count_in(run),
                        run->to);
}

struct relu {
    static __device__ float compute(float x)
    {
        return x <= 0 ? 0 : x;
    }

    static __device__ float differentiate(float x, float, float dy)
    {
        return x <= 0 ? 0 : dy;
    }
};

struct hyperbolic_tangent {
    static __device__ float compute(float x)
    {
        return hd_tanh_compute(x);
    }

    static __device__ float differentiate(float, float y, float dy)
    {
        return dy * (1 - y * y);
    }
};

struct gelu {
    static __device__ float compute(float x)
    {
        return x * hd_gauss_compute(x).distribution;
    }

    static __device__ float differentiate(float x, float, float dy)
    {
        const struct hd_gauss gauss = hd_gauss_compute(x);
        return dy * (gauss.distribution + x * gauss.density);
    }
};

const struct hd_layer_on_gpu hd_relu_on_gpu = {NULL, forward<relu>, backward_data<relu>, NULL};
const struct hd_layer_on_gpu hd_tanh_on_gpu = {NULL, forward<hyperbolic_tangent>,
                                               backward_data<hyperbolic_tangent>, NULL};
const struct hd_layer_on_gpu hd_gelu_on_gpu = {NULL, forward<gelu>, backward_data<gelu>, NULL};
