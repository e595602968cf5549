/* SPDX-License-Identifier: Apache-2.0 */
/* A thread block normalises a row. Its sums are those of the threads, added in a tree. */
#include "kernels/net/layers/gpu/launch_internal.cuh"

#define EPSILON 1e-5f

struct moments {
    float mean, inverse; /* inverse: 1 / sqrt(variance + epsilon) */
};

/* Returns the sum of term(i), i < n, to all threads of a block. */
template <class Term>
static inline __device__ float add_row(uint32_t n, float *part, const Term &term)
{
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < n; i += HD_THREADS)
        sum += term(i);
    __syncthreads(); /* all have read the last sum */
    part[threadIdx.x] = sum;
    for (uint32_t half = HD_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    return part[0];
}

static inline __device__ struct moments compute_moments(uint32_t n, const float *x, float *part)
{
    const float mean = add_row(n, part, [&](uint32_t i) { return x[i]; }) / (float)n;
    const float squares =
        add_row(n, part, [&](uint32_t i) { return (x[i] - mean) * (x[i] - mean); });
    return {mean, 1 / sqrtf(squares / (float)n + EPSILON)};
}

static __global__ void normalise(uint32_t n, const float *x, const float *weight, const float *bias,
                                 float *y)
{
    __shared__ float part[HD_THREADS];
    const int64_t at = (int64_t)blockIdx.x * n;
    const struct moments m = compute_moments(n, x + at, part);
    for (uint32_t i = threadIdx.x; i < n; i += HD_THREADS)
        y[at + i] = (x[at + i] - m.mean) * m.inverse * weight[i] + bias[i];
}

static __global__ void differentiate(uint32_t n, const float *x, const float *weight,
                                     const float *dy, float *dx)
{
    __shared__ float part[HD_THREADS];
    const int64_t at = (int64_t)blockIdx.x * n;
    const struct moments m = compute_moments(n, x + at, part);
    const auto xhat = [&](uint32_t i) { return (x[at + i] - m.mean) * m.inverse; };
    const auto g = [&](uint32_t i) { return weight[i] * dy[at + i]; };
    const float mean = add_row(n, part, g) / (float)n;
    const float slope = add_row(n, part, [&](uint32_t i) { return g(i) * xhat(i); }) / (float)n;
    for (uint32_t i = threadIdx.x; i < n; i += HD_THREADS)
        dx[at + i] = m.inverse * (g(i) - mean - xhat(i) * slope);
}

static __global__ void find_moments(uint32_t n, const float *x, struct moments *moments)
{
    __shared__ float part[HD_THREADS];
    const struct moments m = compute_moments(n, x + (int64_t)blockIdx.x * n, part);
    if (threadIdx.x == 0)
        moments[blockIdx.x] = m;
}

struct norm_weight_term {
    const float *x, *dy;
    const struct moments *moments;
    int64_t n;

    __device__ float operator()(uint32_t i, uint32_t row) const
    {
        const struct moments m = moments[row];
        return dy[row * n + i] * ((x[row * n + i] - m.mean) * m.inverse);
    }
};

static uint32_t count(const struct hd_layer_run *run)
{
    return (uint32_t)hd_shape_count(&run->layer->in);
}

static struct hd_layer_sums make_sums(const struct hd_layer *layer, int64_t rows)
{
    return hd_layer_make_sums(hd_shape_count(&layer->in), rows, false);
}

static int64_t count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return 2 * rows + hd_layer_count_sums_scratch(make_sums(layer, rows));
}

static int forward(const struct hd_layer_run *run)
{
    if (run->dry_run)
        return HD_OK;
    return HD_LAUNCH(normalise, (unsigned)run->rows, HD_THREADS, run->stream, count(run), run->x,
                     run->weight, run->bias, run->to);
}

static int backward_data(const struct hd_layer_run *run)
{
    if (run->dry_run)
        return HD_OK;
    return HD_LAUNCH(differentiate, (unsigned)run->rows, HD_THREADS, run->stream, count(run),
                     run->x, run->weight, run->dy, run->to);
}

static int backward_weights(const struct hd_layer_run *run)
{
    const struct hd_layer_sums sums = make_sums(run->layer, run->rows);
    struct moments *moments = (struct moments *)run->scratch;
    float *scratch = (float *)(moments + run->rows);
    if (run->dry_run)
        return HD_OK;
    HD_TRY(HD_LAUNCH(find_moments, (unsigned)run->rows, HD_THREADS, run->stream, count(run), run->x,
                     moments));
    HD_TRY(hd_layer_sum(run, norm_weight_term{run->x, run->dy, moments, count(run)}, sums, scratch,
                        run->dweight));
    return hd_layer_sum(run, hd_layer_column{run->dy, count(run)}, sums, scratch, run->dbias);
}

const struct hd_layer_on_gpu hd_layer_norm_on_gpu = {count_scratch, forward, backward_data,
                                                     backward_weights};
