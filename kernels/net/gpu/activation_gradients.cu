/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives by activations that columns, products and heads leave. */
#include "kernels/net/gpu/delta_internal.cuh"

template <class T> struct as_it_is {
    const T *dy;
    int64_t width;

    __device__ void operator()(int64_t row, int64_t column, float sum[HD_VECTOR]) const
    {
        const hd_vector<T> d = hd_load(dy + row * width + column);
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            sum[e] = hd_to_float(d.e[e]);
    }
};

extern "C" int hd_gpu_pass_on(const struct hd_gpu_delta *delta, int64_t rows, int64_t width,
                              const void *from, void *stream)
{
    const bool stored = from != delta->dx || delta->x;
    return hd_dispatch_type(delta->bf16, [&](auto type) {
        using T = decltype(type);
        return hd_launch_delta<T, T>(delta, as_it_is<T>{(const T *)from, width}, rows, width,
                                     stored, stream);
    });
}

/* -- Convolutions ------------------------------------------------------------------------------ */

/* A pixel lies in the windows that begin up to kernel - 1 before it; their contributions are added
 * in the order of the windows. */
template <class T> struct from_columns {
    const T *dcolumns;
    struct hd_gpu_window w;

    __device__ void operator()(int64_t pixel, int64_t channel, float sum[HD_VECTOR]) const
    {
        const uint32_t p = (uint32_t)pixel, up = p / (uint32_t)w.width;
        const int64_t row = up / (uint32_t)w.height;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            sum[e] = 0;
        hd_visit_windows(w, (int32_t)(up % (uint32_t)w.height), (int32_t)(p % (uint32_t)w.width),
                         [&](int32_t oy, int32_t ox, int32_t k) {
                             const int64_t out = (row * w.out_height + oy) * w.out_width + ox;
                             const hd_vector<T> d = hd_load(
                                 dcolumns + (out * w.kernel * w.kernel + k) * w.channels + channel);
#pragma unroll
                             for (int e = 0; e < HD_VECTOR; e++)
                                 sum[e] += hd_to_float(d.e[e]);
                         });
    }
};

/* Counts the pixels of all rows, which have to fit into 32 bits: the division of larger numbers is
 * slow. */
static int count_pixels(const struct hd_gpu_window *window, int64_t rows, int64_t *pixels_p)
{
    *pixels_p = rows * window->height * window->width;
    return *pixels_p <= INT32_MAX
               ? HD_OK
               : hd_fail(HD_ERR_UNSUPPORTED, "images too large for a GPU's convolution");
}

extern "C" int hd_gpu_col2im(const struct hd_gpu_delta *delta, const struct hd_gpu_window *window,
                             int64_t rows, const void *dcolumns, void *stream)
{
    int64_t pixels;
    HD_TRY(count_pixels(window, rows, &pixels));
    return hd_dispatch_type(delta->bf16, [&](auto type) {
        using T = decltype(type);
        return hd_launch_delta<T, T>(delta, from_columns<T>{(const T *)dcolumns, *window}, pixels,
                                     window->channels, true, stream);
    });
}

/* -- Heads ------------------------------------------------------------------------------------- */

/* dL/dA = dq - mean dq and dL/dV = sum dq (dueling); else dq itself. */
struct split {
    const float *dq;
    float *dout;
    int64_t ld_out;
    int32_t actions, outputs;
    bool dueling;

    __device__ hd_vector<float> operator()(int64_t row, int64_t column) const
    {
        const float *from = dq + row * (dueling ? actions : outputs);
        hd_vector<float> x;
        float sum = 0;
        for (int32_t a = 0; a < actions && dueling; a++)
            sum += from[a];
        for (int e = 0; e < HD_VECTOR; e++) {
            const int32_t i = (int32_t)column + e;
            if (i >= outputs)
                x.e[e] = 0;
            else if (!dueling)
                x.e[e] = from[i];
            else
                x.e[e] = i == actions ? sum : from[i] - sum / (float)actions;
        }
        hd_store(dout + row * ld_out + column, x);
        return x;
    }
};

extern "C" int hd_gpu_heads_split(const struct hd_gpu_heads *heads, int64_t rows, const float *dq,
                                  float *dout, const struct hd_gpu_sums *sums, void *stream)
{
    const split made = {dq, dout, heads->ld_out, heads->actions, heads->outputs, heads->dueling};
    return hd_launch_sums(made, rows, heads->ld_out, *sums, stream);
}

/* A neuron contributes to the outputs of the streams that read it. */
struct of_hidden {
    struct hd_gpu_heads heads;
    const float *dout;
    int32_t pixels, width;

    __device__ void operator()(int64_t pixel, int64_t channel, float sum[HD_VECTOR]) const
    {
        const uint32_t p = (uint32_t)pixel, row = p / (uint32_t)pixels;
        const int32_t column = (int32_t)(p % (uint32_t)pixels) * width + (int32_t)channel;
        const float *d = dout + row * heads.ld_out;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            sum[e] = 0;
        for (int s = 0; s < heads.n_streams; s++) {
            const struct hd_gpu_stream &in = heads.streams[s];
            for (int e = 0; e < HD_VECTOR; e++) {
                const int32_t i = column + e - in.from;
                for (int32_t a = in.first; a < in.end && i >= 0 && i < in.width; a++)
                    sum[e] += d[a] * in.weight[(a - in.first) * in.ld_weight + i];
            }
        }
    }
};

extern "C" int hd_gpu_heads_backward(const struct hd_gpu_delta *delta,
                                     const struct hd_gpu_heads *heads,
                                     const struct hd_gpu_image *image, int64_t rows,
                                     const float *dout, void *stream)
{
    const of_hidden from = {*heads, dout, image->pixels, image->stored};
    return hd_dispatch_type(delta->bf16, [&](auto type) {
        return hd_launch_delta<decltype(type), float>(delta, from, rows * image->pixels,
                                                      image->stored, true, stream);
    });
}
