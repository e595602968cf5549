/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation of rows. A thread block adds up a row: the sums of its threads, in a tree. */
#include "kernels/net/gpu/delta_internal.cuh"

extern "C" {
#include "kernels/net/gpu/layers.h"
}

#define EPSILON 1e-5f

struct moments {
    float mean, inverse; /* inverse: 1 / sqrt(variance + epsilon) */
};

struct slopes {
    float mean, slope;
};

/* The elements of a row that are not padding. */
struct row_of_image {
    struct hd_gpu_image image;

    __device__ int32_t count() const
    {
        return image.pixels * image.channels;
    }

    /* Returns the sum of term(i) over a row's elements i to all threads of a block. */
    template <class Term> __device__ float add_up(float *part, const Term &term) const
    {
        float sum = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < image.pixels * image.stored; i += HD_THREADS)
            sum += i % image.stored < image.channels ? term(i) : 0.0f;
        __syncthreads(); /* all have read the last sum */
        part[threadIdx.x] = sum;
        for (int half = HD_THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            if ((int)threadIdx.x < half)
                part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
        return part[0];
    }
};

template <class T>
static __global__ void normalise(const struct row_of_image row, const T *x, const float *weight,
                                 const float *bias, struct moments *moments, T *y)
{
    HD_AWAIT_INPUTS();
    __shared__ float part[HD_THREADS];
    const int32_t ld = row.image.pixels * row.image.stored;
    const float n = (float)row.count();
    x += (int64_t)blockIdx.x * ld;
    y += (int64_t)blockIdx.x * ld;
    const auto at = [&](int32_t i) { return hd_to_float(x[i]); };
    const float mean = row.add_up(part, at) / n;
    const float squares =
        row.add_up(part, [&](int32_t i) { return (at(i) - mean) * (at(i) - mean); });
    const struct moments m = {mean, 1 / sqrtf(squares / n + EPSILON)};
    for (int32_t i = (int32_t)threadIdx.x; i < ld; i += HD_THREADS)
        y[i] = i % row.image.stored < row.image.channels
                   ? hd_from_float<T>((at(i) - m.mean) * m.inverse * weight[i] + bias[i])
                   : T(0);
    if (threadIdx.x == 0)
        moments[blockIdx.x] = m;
}

static int64_t count_kept(const struct hd_gpu_image *)
{
    return sizeof(struct moments) / sizeof(float);
}

static int forward(const struct hd_gpu_run *run)
{
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        return HD_LAUNCH(normalise<T>, (unsigned)run->rows, HD_THREADS, run->stream,
                         row_of_image{run->in}, (const T *)run->x, run->weight, run->bias,
                         (struct moments *)run->kept, (T *)run->y);
    });
}

/* -- Backward ---------------------------------------------------------------------------------- */

template <class T>
static __global__ void find_slopes(const struct row_of_image row, const T *x, const float *weight,
                                   const struct moments *moments, const T *dy,
                                   struct slopes *slopes)
{
    HD_AWAIT_INPUTS();
    __shared__ float part[HD_THREADS];
    const int64_t first = (int64_t)blockIdx.x * row.image.pixels * row.image.stored;
    const struct moments m = moments[blockIdx.x];
    const float n = (float)row.count();
    const auto g = [&](int32_t i) { return weight[i] * hd_to_float(dy[first + i]); };
    const float mean = row.add_up(part, g) / n;
    const float slope = row.add_up(
        part, [&](int32_t i) { return g(i) * ((hd_to_float(x[first + i]) - m.mean) * m.inverse); });
    if (threadIdx.x == 0)
        slopes[blockIdx.x] = {mean, slope / n};
}

template <class T> struct norm_derivative {
    const T *x, *dy;
    const float *weight;
    const struct moments *moments;
    const struct slopes *slopes;
    struct hd_gpu_image image;

    __device__ void operator()(int64_t pixel, int64_t channel, float sum[HD_VECTOR]) const
    {
        const uint32_t row = (uint32_t)pixel / (uint32_t)image.pixels;
        const uint32_t in_row = (uint32_t)pixel % (uint32_t)image.pixels;
        const int64_t at = pixel * image.stored + channel;
        const float *w = weight + (int64_t)in_row * image.stored + channel;
        const struct moments m = moments[row];
        const struct slopes s = slopes[row];
        const hd_vector<T> v = hd_load(x + at), d = hd_load(dy + at);
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++) {
            const float xhat = (hd_to_float(v.e[e]) - m.mean) * m.inverse;
            const float g = w[e] * hd_to_float(d.e[e]);
            sum[e] =
                channel + e < image.channels ? m.inverse * (g - s.mean - xhat * s.slope) : 0.0f;
        }
    }
};

static int backward_data(const struct hd_gpu_run *run)
{
    const struct moments *moments = (const struct moments *)run->kept;
    struct slopes *slopes = (struct slopes *)run->scratch;
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        const T *x = (const T *)run->x, *dy = (const T *)run->dy;
        HD_TRY(HD_LAUNCH(find_slopes<T>, (unsigned)run->rows, HD_THREADS, run->stream,
                         row_of_image{run->in}, x, run->weight, moments, dy, slopes));
        return hd_launch_delta<T, T>(
            &run->dx, norm_derivative<T>{x, dy, run->weight, moments, slopes, run->in},
            run->rows * run->in.pixels, run->in.stored, true, run->stream);
    });
}

/* Derivatives by the weights, or by the biases if there are no moments. */
template <class T> struct norm_parameters {
    const T *x, *dy;
    const struct moments *moments;
    int64_t ld;

    __device__ hd_vector<float> operator()(int64_t row, int64_t column) const
    {
        const hd_vector<T> v = hd_load(x + row * ld + column), d = hd_load(dy + row * ld + column);
        hd_vector<float> term;
#pragma unroll
        for (int e = 0; e < HD_VECTOR; e++) {
            const float dy = hd_to_float(d.e[e]), at = hd_to_float(v.e[e]);
            term.e[e] = moments ? dy * ((at - moments[row].mean) * moments[row].inverse) : dy;
        }
        return term;
    }
};

static int backward_weights(const struct hd_gpu_run *run)
{
    const int64_t ld = hd_gpu_count_row(&run->in);
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        norm_parameters<T> made = {(const T *)run->x, (const T *)run->dy,
                                   (const struct moments *)run->kept, ld};
        HD_TRY(hd_launch_sums(made, run->rows, ld, run->dweight, run->stream));
        made.moments = NULL;
        return hd_launch_sums(made, run->rows, ld, run->dbias, run->stream);
    });
}

const struct hd_layer_on_gpu hd_layer_norm_on_gpu = {count_kept, forward, backward_data,
                                                     backward_weights};
