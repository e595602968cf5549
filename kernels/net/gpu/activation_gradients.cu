/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of activations in the backward pass and, in the same pass over memory, the sums of
 * their columns, which are the gradients of biases. A thread block adds a block of the rows for
 * some columns: each thread goes down HD_VECTOR columns, and the threads of a column add their sums
 * in a tree, so that sums are the same in every run. */
#include "kernels/net/gpu/vector_internal.cuh"

/* The arrangement of a block's threads: `across` side by side, the others below them. */
struct shape {
    int32_t across;
    int64_t rows, rows_of_block, width;
};

static struct shape shape_of(int64_t rows, int64_t width)
{
    struct shape shape = {1, rows, 0, width};
    while (shape.across < 32 && shape.across * HD_VECTOR < width)
        shape.across *= 2;
    const int64_t down = HD_THREADS / shape.across;
    const int64_t each = (rows + HD_GPU_ROW_BLOCKS - 1) / HD_GPU_ROW_BLOCKS;
    shape.rows_of_block = each > down ? each : down;
    return shape;
}

static dim3 blocks_of(const struct shape &shape)
{
    const int64_t columns = (int64_t)shape.across * HD_VECTOR;
    return dim3((unsigned)((shape.width + columns - 1) / columns), HD_GPU_ROW_BLOCKS);
}

/* Adds part[HD_THREADS][HD_VECTOR] over the threads of each column; the sums are in the first
 * `across` elements. */
static inline __device__ void add_up(float part[][HD_VECTOR], int32_t across)
{
    for (int32_t half = HD_THREADS / 2; half >= across; half /= 2) {
        __syncthreads();
        if ((int32_t)threadIdx.x < half)
            for (int e = 0; e < HD_VECTOR; e++)
                part[threadIdx.x][e] += part[threadIdx.x + half][e];
    }
}

/* `made` computes, stores and returns vector `column` of a row. */
template <class Made>
static __global__ void sum_columns(const Made made, const struct shape shape,
                                   const struct hd_gpu_sums sums)
{
    __shared__ float part[HD_THREADS][HD_VECTOR];
    const int64_t first = blockIdx.y * shape.rows_of_block;
    const int64_t end = first + shape.rows_of_block;
    const int64_t last = end < shape.rows ? end : shape.rows;
    const int64_t column =
        ((int64_t)blockIdx.x * shape.across + threadIdx.x % shape.across) * HD_VECTOR;
    const int64_t down = HD_THREADS / shape.across;
    float sum[HD_VECTOR] = {0};
    if (column < shape.width)
        for (int64_t row = first + threadIdx.x / shape.across; row < last; row += down) {
            const auto x = made(row, column);
#pragma unroll
            for (int e = 0; e < HD_VECTOR; e++)
                sum[e] += hd_to_float(x.e[e]);
        }
    for (int e = 0; e < HD_VECTOR; e++)
        part[threadIdx.x][e] = sum[e];
    add_up(part, shape.across);
    if ((int32_t)threadIdx.x >= shape.across || column >= shape.width)
        return;
    float *to = sums.sums + blockIdx.y * sums.stride + column;
    for (int e = 0; e < HD_VECTOR; e++)
        to[e] = (sums.add ? to[e] : 0.0f) + part[threadIdx.x][e];
}

template <class Made>
static int launch(const Made &made, int64_t rows, int64_t width, const struct hd_gpu_sums *sums,
                  void *stream)
{
    const struct shape shape = shape_of(rows, width);
    return HD_LAUNCH(sum_columns<Made>, blocks_of(shape), HD_THREADS, stream, made, shape, *sums);
}

template <class T> static inline __device__ void mask(const hd_vector<T> &y, hd_vector<T> &dy)
{
#pragma unroll
    for (int e = 0; e < HD_VECTOR; e++)
        dy.e[e] = hd_to_float(y.e[e]) > 0.0f ? dy.e[e] : T(0);
}

/* -- Dense layers ------------------------------------------------------------------------------ */

template <class T> struct masked {
    const T *y;
    T *dy;
    int64_t width;

    __device__ hd_vector<T> operator()(int64_t row, int64_t column) const
    {
        const int64_t at = row * width + column;
        hd_vector<T> x = hd_load(dy + at);
        if (!y)
            return x;
        mask(hd_load(y + at), x);
        hd_store(dy + at, x);
        return x;
    }
};

extern "C" int hd_gpu_mask(int64_t rows, int64_t width, const void *y, bool bf16, void *dy,
                           const struct hd_gpu_sums *sums, void *stream)
{
    return hd_dispatch_type(bf16, [&](auto type) {
        using T = decltype(type);
        return launch(masked<T>{(const T *)y, (T *)dy, width}, rows, width, sums, stream);
    });
}

/* -- Convolutions ------------------------------------------------------------------------------ */

/* A pixel lies in the windows that begin up to kernel - 1 before it; their contributions are added
 * in the order of the windows. */
template <class T> struct from_columns {
    const T *dcolumns, *x;
    T *dx;
    struct hd_gpu_window w;

    __device__ hd_vector<T> operator()(int64_t pixel, int64_t channel) const
    {
        const uint32_t p = (uint32_t)pixel, up = p / (uint32_t)w.width;
        const int32_t px = (int32_t)(p % (uint32_t)w.width),
                      py = (int32_t)(up % (uint32_t)w.height);
        const int64_t row = up / (uint32_t)w.height, at = pixel * w.channels + channel;
        const int32_t top = py < w.kernel ? 0 : (py - w.kernel) / w.stride + 1;
        const int32_t left = px < w.kernel ? 0 : (px - w.kernel) / w.stride + 1;
        float sum[HD_VECTOR] = {0};
        for (int32_t oy = top; oy < w.out_height && oy * w.stride <= py; oy++)
            for (int32_t ox = left; ox < w.out_width && ox * w.stride <= px; ox++) {
                const int32_t k = (py - oy * w.stride) * w.kernel + px - ox * w.stride;
                const int64_t out = (row * w.out_height + oy) * w.out_width + ox;
                const hd_vector<T> d =
                    hd_load(dcolumns + (out * w.kernel * w.kernel + k) * w.channels + channel);
#pragma unroll
                for (int e = 0; e < HD_VECTOR; e++)
                    sum[e] += hd_to_float(d.e[e]);
            }
        hd_vector<T> result;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++)
            result.e[e] = hd_from_float<T>(sum[e]);
        mask(hd_load(x + at), result);
        hd_store(dx + at, result);
        return result;
    }
};

extern "C" int hd_gpu_col2im(const void *dcolumns, const struct hd_gpu_window *window, int64_t rows,
                             const void *x, bool bf16, void *dx, const struct hd_gpu_sums *sums,
                             void *stream)
{
    const int64_t pixels = rows * window->height * window->width;
    if (pixels > INT32_MAX) /* the division of larger numbers is slow */
        return hd_fail(HD_ERR_UNSUPPORTED, "images too large for a GPU's convolution");
    return hd_dispatch_type(bf16, [&](auto type) {
        using T = decltype(type);
        const from_columns<T> made = {(const T *)dcolumns, (const T *)x, (T *)dx, *window};
        return launch(made, pixels, window->channels, sums, stream);
    });
}

/* -- Heads ------------------------------------------------------------------------------------- */

/* dL/dA = dq - mean dq and dL/dV = sum dq (dueling); else dq itself. */
struct split {
    struct hd_gpu_heads heads;
    const float *dq;
    float *dout;

    __device__ hd_vector<float> operator()(int64_t row, int64_t column) const
    {
        const int32_t actions = heads.actions, outputs = hd_gpu_count_head_outputs(&heads);
        const float *from = dq + row * (heads.dueling ? actions : outputs);
        hd_vector<float> x;
        float sum = 0;
        for (int32_t a = 0; a < actions && heads.dueling; a++)
            sum += from[a];
        for (int e = 0; e < HD_VECTOR; e++) {
            const int32_t i = (int32_t)column + e;
            if (i >= outputs)
                x.e[e] = 0;
            else if (!heads.dueling)
                x.e[e] = from[i];
            else
                x.e[e] = i == actions ? sum : from[i] - sum / (float)actions;
        }
        hd_store(dout + row * heads.ld_out + column, x);
        return x;
    }
};

extern "C" int hd_gpu_heads_split(const struct hd_gpu_heads *heads, int64_t rows, const float *dq,
                                  float *dout, const struct hd_gpu_sums *sums, void *stream)
{
    return launch(split{*heads, dq, dout}, rows, heads->ld_out, sums, stream);
}

/* A neuron of the actions' stream contributes to every action, one of the value's stream to the
 * value. */
template <class T> struct of_hidden {
    struct hd_gpu_heads heads;
    const float *dout, *weight, *hidden;
    T *dhidden;

    __device__ float gradient(const float *d, int32_t neuron) const
    {
        const int32_t stream = neuron / heads.width, i = neuron % heads.width;
        const int32_t first = stream == 0 ? 0 : heads.actions;
        const int32_t end = stream == 0 ? heads.actions : heads.actions + 1;
        float sum = 0;
        for (int32_t a = first; a < end; a++)
            sum += d[a] * weight[a * heads.ld_weight + i];
        return sum;
    }

    __device__ hd_vector<T> operator()(int64_t row, int64_t column) const
    {
        const float *d = dout + row * heads.ld_out;
        const int64_t at = row * heads.ld_hidden + column;
        const hd_vector<float> y = hd_load(hidden + at);
        hd_vector<T> x;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++) {
            const int32_t neuron = (int32_t)column + e;
            const bool there = neuron < heads.streams * heads.width && y.e[e] > 0.0f;
            x.e[e] = hd_from_float<T>(there ? gradient(d, neuron) : 0.0f);
        }
        hd_store(dhidden + at, x);
        return x;
    }
};

extern "C" int hd_gpu_heads_backward_hidden(const struct hd_gpu_heads *heads, int64_t rows,
                                            const float *dout, const float *weight,
                                            const float *hidden, bool bf16, void *dhidden,
                                            const struct hd_gpu_sums *sums, void *stream)
{
    return hd_dispatch_type(bf16, [&](auto type) {
        using T = decltype(type);
        const of_hidden<T> made = {*heads, dout, weight, hidden, (T *)dhidden};
        return launch(made, rows, heads->ld_hidden, sums, stream);
    });
}
