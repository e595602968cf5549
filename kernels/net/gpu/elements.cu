/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of residuals, and conversions. */
#include "kernels/net/gpu/delta_internal.cuh"

template <class T> struct added {
    const T *a, *b;
    T *y;

    __device__ void operator()(int64_t, int64_t at) const
    {
        const hd_vector<T> v = hd_load(a + at), w = hd_load(b + at);
        hd_vector<T> sum;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            sum.e[e] = hd_from_float<T>(hd_to_float(v.e[e]) + hd_to_float(w.e[e]));
        hd_store(y + at, sum);
    }
};

extern "C" int hd_gpu_add(int64_t n, const void *a, const void *b, bool bf16, void *y, void *stream)
{
    return hd_dispatch_type(bf16, [&](auto type) {
        using T = decltype(type);
        return hd_launch_rows(added<T>{(const T *)a, (const T *)b, (T *)y}, 1, n, stream);
    });
}

/* -- Conversions ------------------------------------------------------------------------------- */

template <class From, class To> struct converted {
    const From *x;
    To *y;
    int64_t ld, width;
    struct hd_gpu_image image;
    bool planes;

    __device__ void operator()(int64_t row, int64_t column) const
    {
        hd_vector<To> v;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++) {
            const int32_t i = (int32_t)column + e, channel = i % image.stored;
            const int32_t at = planes ? channel * image.pixels + i / image.stored : i;
            v.e[e] =
                hd_from_float<To>(channel < image.channels ? hd_to_float(x[row * ld + at]) : 0.0f);
        }
        hd_store(y + row * width + column, v);
    }
};

extern "C" int hd_gpu_convert(const struct hd_gpu_image *image, int64_t rows, const void *x,
                              int64_t ld, bool planes, bool from_bf16, bool to_bf16, void *y,
                              void *stream)
{
    const int64_t width = (int64_t)image->pixels * image->stored;
    return hd_dispatch_type(from_bf16, [&](auto from) {
        return hd_dispatch_type(to_bf16, [&](auto to) {
            using From = decltype(from);
            using To = decltype(to);
            const converted<From, To> made = {(const From *)x, (To *)y, ld, width, *image, planes};
            return hd_launch_rows(made, rows, width, stream);
        });
    });
}
