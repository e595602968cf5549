/* SPDX-License-Identifier: Apache-2.0 */
/* Maxima of windows: of equal numbers the first one counts, and of several NaNs the last one. */
#include "kernels/net/gpu/delta_internal.cuh"

extern "C" {
#include "kernels/net/gpu/layers.h"
}

template <class T> struct pooled {
    const T *x;
    T *y;
    uint32_t *places;
    struct hd_gpu_window w;

    __device__ void operator()(int64_t pixel, int64_t channel) const
    {
        const uint32_t p = (uint32_t)pixel, up = p / (uint32_t)w.out_width;
        const int32_t top = (int32_t)(up % (uint32_t)w.out_height) * w.stride - w.padding;
        const int32_t left = (int32_t)(p % (uint32_t)w.out_width) * w.stride - w.padding;
        const T *image =
            x + (int64_t)(up / (uint32_t)w.out_height) * w.height * w.width * w.channels + channel;
        hd_vector<T> max = {};
        uint32_t at[HD_VECTOR];
        bool none = true;
        for (int32_t i = max_of(top, 0); i < min_of(top + w.kernel, w.height); i++)
            for (int32_t j = max_of(left, 0); j < min_of(left + w.kernel, w.width); j++) {
                const uint32_t in = (uint32_t)(i * w.width + j);
                const hd_vector<T> v = hd_load(image + (int64_t)in * w.channels);
#pragma unroll
                for (int e = 0; e < HD_VECTOR; e++) {
                    const float f = hd_to_float(v.e[e]);
                    const bool larger = none || f > hd_to_float(max.e[e]) || isnan(f);
                    max.e[e] = larger ? v.e[e] : max.e[e];
                    at[e] = larger ? in : at[e];
                }
                none = false;
            }
        hd_store(y + pixel * w.channels + channel, max);
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            places[pixel * w.channels + channel + e] = at[e];
    }

    static __device__ int32_t max_of(int32_t a, int32_t b)
    {
        return a > b ? a : b;
    }

    static __device__ int32_t min_of(int32_t a, int32_t b)
    {
        return a < b ? a : b;
    }
};

/* A pixel gets the derivatives by the windows of which it is the maximum. */
template <class T> struct from_places {
    const uint32_t *places;
    const T *dy;
    struct hd_gpu_window w;

    __device__ void operator()(int64_t pixel, int64_t channel, float sum[HD_VECTOR]) const
    {
        const uint32_t p = (uint32_t)pixel, of_image = (uint32_t)(w.height * w.width);
        const uint32_t in = p % of_image;
        const int64_t row = p / of_image;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            sum[e] = 0;
        hd_visit_windows(w, (int32_t)(in / (uint32_t)w.width), (int32_t)(in % (uint32_t)w.width),
                         [&](int32_t oy, int32_t ox, int32_t) {
                             const int64_t at =
                                 ((row * w.out_height + oy) * w.out_width + ox) * w.channels +
                                 channel;
                             const hd_vector<T> d = hd_load(dy + at);
#pragma unroll
                             for (int e = 0; e < HD_VECTOR; e++)
                                 sum[e] += places[at + e] == in ? hd_to_float(d.e[e]) : 0.0f;
                         });
    }
};

static struct hd_gpu_window make_window(const struct hd_gpu_run *run)
{
    const int64_t *fields = run->layer->fields;
    const int64_t kernel = fields[HD_POOL_KERNEL], stride = fields[HD_POOL_STRIDE];
    return hd_gpu_make_window(run->layer, run->in.stored, kernel, stride > 0 ? stride : kernel,
                              fields[HD_POOL_PADDING]);
}

static int forward(const struct hd_gpu_run *run)
{
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        const pooled<T> made = {(const T *)run->x, (T *)run->y, (uint32_t *)run->kept,
                                make_window(run)};
        return hd_launch_rows(made, run->rows * run->out.pixels, run->out.stored, run->stream);
    });
}

static int backward_data(const struct hd_gpu_run *run)
{
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        const from_places<T> from = {(const uint32_t *)run->kept, (const T *)run->dy,
                                     make_window(run)};
        return hd_launch_delta<T, T>(&run->dx, from, run->rows * run->in.pixels, run->in.stored,
                                     true, run->stream);
    });
}

const struct hd_layer_on_gpu hd_max_pool_on_gpu = {hd_gpu_count_row, forward, backward_data, NULL};
