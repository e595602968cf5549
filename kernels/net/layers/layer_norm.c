/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.LayerNorm over all elements of a sample (Ba et al. 2016). Moments are doubles: of rows
 * HD_LANES partial sums, so that compilers make vectors. Columns are taken by HD_LANES, so that
 * vectors go over samples. */
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <string.h>

#define EPSILON 1e-5

static int layer_norm_list_tensors(const struct hd_layer *layer,
                                   struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const struct hd_shape *shape = &layer->in;
    tensors[0] = hd_layer_make_tensor(shape->dims, shape->size, HD_TENSOR_ONES, 0);
    tensors[1] = hd_layer_make_tensor(shape->dims, shape->size, HD_TENSOR_ZEROS, 0);
    return 2;
}

/* -- Rows -------------------------------------------------------------------------------------- */

/* Partial sums of the elements i, i + HD_LANES, … of a row. */
struct partials {
    double a[HD_LANES], b[HD_LANES];
};

static double add_lanes(double lanes[HD_LANES])
{
    for (int half = HD_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* Adds what the elements are more than `from`, and the square of it. */
HD_ALWAYS void add_powers(int64_t n, const float *x, double from, struct partials *to)
{
    for (int64_t i = 0; i < n; i++) {
        const double more = x[i] - from;
        to->a[i] += more;
        to->b[i] += more * more;
    }
}

static struct partials sum_powers(int64_t n, const float *x, double from)
{
    struct partials sums = {{0}, {0}};
    int64_t i = 0;
    for (; i + HD_LANES <= n; i += HD_LANES)
        add_powers(HD_LANES, x + i, from, &sums);
    add_powers(n - i, x + i, from, &sums);
    return sums;
}

struct moments {
    float mean, inverse; /* inverse: 1 / sqrt(variance + epsilon) */
};

static struct moments compute_moments(int64_t n, const float *x)
{
    struct partials sums = sum_powers(n, x, 0);
    const double mean = add_lanes(sums.a) / (double)n;
    sums = sum_powers(n, x, mean);
    return (struct moments){(float)mean,
                            (float)(1 / sqrt(add_lanes(sums.b) / (double)n + EPSILON))};
}

static void forward_rows(const struct hd_layer_run *run)
{
    const int64_t n = hd_shape_count(&run->layer->in);
    const float *restrict weight = run->weight, *restrict bias = run->bias;
    for (int64_t r = 0; r < run->rows; r++) {
        const float *restrict x = run->x + r * n;
        float *restrict y = run->to + r * n;
        const struct moments m = compute_moments(n, x);
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - m.mean) * m.inverse * weight[i] + bias[i];
    }
}

/* Adds the derivatives by the normalised elements, and their products with these. */
HD_ALWAYS void add_products(int64_t n, const float *weight, const float *x, const float *dy,
                            struct moments m, struct partials *to)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = weight[i] * dy[i];
        to->a[i] += g;
        to->b[i] += (double)g * ((x[i] - m.mean) * m.inverse);
    }
}

static struct partials sum_products(int64_t n, const float *weight, const float *x, const float *dy,
                                    struct moments m)
{
    struct partials sums = {{0}, {0}};
    int64_t i = 0;
    for (; i + HD_LANES <= n; i += HD_LANES)
        add_products(HD_LANES, weight + i, x + i, dy + i, m, &sums);
    add_products(n - i, weight + i, x + i, dy + i, m, &sums);
    return sums;
}

static void backward_data_rows(const struct hd_layer_run *run)
{
    const int64_t n = hd_shape_count(&run->layer->in);
    const float *restrict weight = run->weight;
    for (int64_t r = 0; r < run->rows; r++) {
        const float *restrict x = run->x + r * n, *restrict dy = run->dy + r * n;
        float *restrict dx = run->to + r * n;
        const struct moments m = compute_moments(n, x);
        struct partials sums = sum_products(n, weight, x, dy, m);
        const float mean = (float)(add_lanes(sums.a) / (double)n);
        const float slope = (float)(add_lanes(sums.b) / (double)n);
        for (int64_t i = 0; i < n; i++) {
            const float xhat = (x[i] - m.mean) * m.inverse;
            dx[i] = m.inverse * (weight[i] * dy[i] - mean - xhat * slope);
        }
    }
}

static void backward_weights_rows(const struct hd_layer_run *run)
{
    const int64_t n = hd_shape_count(&run->layer->in);
    float *restrict dweight = run->dweight, *restrict dbias = run->dbias;
    memset(dweight, 0, (size_t)n * sizeof *dweight);
    memset(dbias, 0, (size_t)n * sizeof *dbias);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *restrict x = run->x + r * n, *restrict dy = run->dy + r * n;
        const struct moments m = compute_moments(n, x);
        for (int64_t i = 0; i < n; i++) {
            dweight[i] += dy[i] * ((x[i] - m.mean) * m.inverse);
            dbias[i] += dy[i];
        }
    }
}

/* -- Columns ----------------------------------------------------------------------------------- */

/* The moments of some columns, of which all arrays below begin with the first. */
struct column_moments {
    float mean[HD_LANES], inverse[HD_LANES];
};

static void compute_column_moments(int64_t n, const float *x, int64_t ld, struct column_moments *m)
{
    double sum[HD_LANES] = {0}, squares[HD_LANES] = {0}, mean[HD_LANES];
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < HD_LANES; b++)
            sum[b] += x[i * ld + b];
    for (int b = 0; b < HD_LANES; b++)
        mean[b] = sum[b] / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < HD_LANES; b++)
            squares[b] += (x[i * ld + b] - mean[b]) * (x[i * ld + b] - mean[b]);
    for (int b = 0; b < HD_LANES; b++) {
        m->mean[b] = (float)mean[b];
        m->inverse[b] = (float)(1 / sqrt(squares[b] / (double)n + EPSILON));
    }
}

static void forward_columns(const struct hd_layer_run *run)
{
    const int64_t n = run->layer->in.size[0];
    for (int64_t at = 0; at < run->ld; at += HD_LANES) {
        struct column_moments m;
        compute_column_moments(n, run->x + at, run->x_ld, &m);
        for (int64_t i = 0; i < n; i++) {
            const float *restrict x = run->x + i * run->x_ld + at;
            float *restrict y = run->to + i * run->ld + at;
            for (int b = 0; b < HD_LANES; b++)
                y[b] = (x[b] - m.mean[b]) * m.inverse[b] * run->weight[i] + run->bias[i];
        }
    }
}

/* Computes dx of HD_LANES columns. */
static void differentiate_columns(const struct hd_layer_run *run, int64_t at)
{
    const int64_t n = run->layer->in.size[0];
    struct column_moments m;
    double sum[HD_LANES] = {0}, product[HD_LANES] = {0};
    float mean[HD_LANES], slope[HD_LANES];
    compute_column_moments(n, run->x + at, run->x_ld, &m);
    for (int64_t i = 0; i < n; i++) {
        const float *restrict x = run->x + i * run->x_ld + at, *restrict dy =
                                                                   run->dy + i * run->ld + at;
        for (int b = 0; b < HD_LANES; b++) {
            const float g = run->weight[i] * dy[b];
            sum[b] += g;
            product[b] += (double)g * ((x[b] - m.mean[b]) * m.inverse[b]);
        }
    }
    for (int b = 0; b < HD_LANES; b++) {
        mean[b] = (float)(sum[b] / (double)n);
        slope[b] = (float)(product[b] / (double)n);
    }
    for (int64_t i = 0; i < n; i++) {
        const float *restrict x = run->x + i * run->x_ld + at, *restrict dy =
                                                                   run->dy + i * run->ld + at;
        float *restrict dx = run->to + i * run->ld + at;
        for (int b = 0; b < HD_LANES; b++) {
            const float xhat = (x[b] - m.mean[b]) * m.inverse[b];
            dx[b] = m.inverse[b] * (run->weight[i] * dy[b] - mean[b] - xhat * slope[b]);
        }
    }
}

/* Adds in HD_LANES partial sums, then pairs of halves. The scratch holds the moments of all
 * columns.
 */
static void backward_weights_columns(const struct hd_layer_run *run)
{
    const int64_t n = run->layer->in.size[0];
    struct column_moments *m = run->scratch;
    for (int64_t at = 0; at < run->rows; at += HD_LANES)
        compute_column_moments(n, run->x + at, run->x_ld, &m[at / HD_LANES]);
    for (int64_t i = 0; i < n; i++) {
        float dweight[HD_LANES] = {0}, dbias[HD_LANES] = {0};
        for (int64_t at = 0; at < run->rows; at += HD_LANES) {
            const float *restrict x = run->x + i * run->x_ld + at, *restrict dy =
                                                                       run->dy + i * run->ld + at;
            const struct column_moments *of = &m[at / HD_LANES];
            const int used = (int)(run->rows - at < HD_LANES ? run->rows - at : HD_LANES);
            for (int b = 0; b < used; b++) {
                dweight[b] += dy[b] * ((x[b] - of->mean[b]) * of->inverse[b]);
                dbias[b] += dy[b];
            }
        }
        run->dweight[i] = hd_vec_add_lanes(dweight);
        run->dbias[i] = hd_vec_add_lanes(dbias);
    }
}

/* -- The type ---------------------------------------------------------------------------------- */

static int64_t layer_norm_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    return layer->in.dims == 1 ? 2 * hd_linear_get_ld(rows) : 0;
}

static void layer_norm_forward(const struct hd_layer_run *run)
{
    if (run->layer->in.dims == 1)
        forward_columns(run);
    else
        forward_rows(run);
}

static void layer_norm_backward_data(const struct hd_layer_run *run)
{
    for (int64_t at = 0; at < run->ld && run->layer->in.dims == 1; at += HD_LANES)
        differentiate_columns(run, at);
    if (run->layer->in.dims > 1)
        backward_data_rows(run);
}

static void layer_norm_backward_weights(const struct hd_layer_run *run)
{
    if (run->layer->in.dims == 1)
        backward_weights_columns(run);
    else
        backward_weights_rows(run);
}

const struct hd_layer_type hd_layer_layer_norm = {
    .name = "layer_norm",
    .form = HD_FORM_COLUMNS,
    .infer = hd_layer_keep_shape,
    .list_tensors = layer_norm_list_tensors,
    .count_scratch = layer_norm_count_scratch,
    .forward = layer_norm_forward,
    .backward_data = layer_norm_backward_data,
    .backward_weights = layer_norm_backward_weights,
    .gpu = HD_ON_GPU(hd_layer_norm_on_gpu),
};
