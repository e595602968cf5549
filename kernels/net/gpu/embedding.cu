/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, which the numbers of an observation name. */
#include "kernels/net/gpu/delta_internal.cuh"

extern "C" {
#include "kernels/net/gpu/layers.h"
}

/* There are n numbers of a row of x. */
struct sizes {
    int32_t n, values, width;
    int64_t x_ld, ld;
};

template <class T> struct embedded {
    struct sizes s;
    const float *x, *table;
    T *y;

    __device__ float find(int64_t row, int32_t i) const
    {
        const int32_t n = i / s.width;
        if (n >= s.n)
            return 0.0f; /* padding */
        const float value = x[row * s.x_ld + n];
        const bool is_row = value >= 0 && value < (float)s.values && value == truncf(value);
        return is_row ? table[(int64_t)value * s.width + i % s.width] : NAN;
    }

    __device__ void operator()(int64_t row, int64_t column) const
    {
        hd_vector<T> v;
        for (int e = 0; e < HD_VECTOR; e++)
            v.e[e] = hd_from_float<T>(find(row, (int32_t)column + e));
        hd_store(y + row * s.ld + column, v);
    }
};

/* A row of the table gets the derivatives by its copies. */
template <class T> struct of_copies {
    struct sizes s;
    const float *x;
    const T *dy;

    __device__ hd_vector<float> operator()(int64_t number, int64_t column) const
    {
        const int64_t row = number / s.n, n = number % s.n;
        const float value = x[row * s.x_ld + n];
        hd_vector<float> term;
        for (int e = 0; e < HD_VECTOR; e++) {
            const int32_t at = (int32_t)column + e, in_row = at % s.width;
            term.e[e] = value == (float)(at / s.width)
                            ? hd_to_float(dy[row * s.ld + n * s.width + in_row])
                            : 0.0f;
        }
        return term;
    }
};

static struct sizes make_sizes(const struct hd_gpu_run *run)
{
    const struct hd_layer *layer = run->layer;
    return {(int32_t)layer->in.size[0], (int32_t)layer->fields[HD_EMBEDDING_VALUES],
            (int32_t)layer->fields[HD_EMBEDDING_WIDTH], hd_gpu_count_row(&run->in),
            hd_gpu_count_row(&run->out)};
}

static int forward(const struct hd_gpu_run *run)
{
    const struct sizes s = make_sizes(run);
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        return hd_launch_rows(embedded<T>{s, (const float *)run->x, run->weight, (T *)run->y},
                              run->rows, s.ld, run->stream);
    });
}

static int backward_weights(const struct hd_gpu_run *run)
{
    const struct sizes s = make_sizes(run);
    const int64_t table = (int64_t)s.values * s.width;
    return hd_dispatch_type(run->bf16, [&](auto type) {
        using T = decltype(type);
        return hd_launch_sums(of_copies<T>{s, (const float *)run->x, (const T *)run->dy},
                              run->rows * s.n, (table + HD_VECTOR - 1) / HD_VECTOR * HD_VECTOR,
                              run->dweight, run->stream);
    });
}

const struct hd_layer_on_gpu hd_embedding_on_gpu = {NULL, forward, NULL, backward_weights};
