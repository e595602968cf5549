/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.LayerNorm over all elements of a sample (Ba et al. 2016). Moments are doubles: of rows
 * HD_LANES partial sums, so that compilers make vectors. Of columns a register is taken at a time,
 * so that vectors go over samples. They are kept for the backward pass. */
#include "kernels/common/vector.h"
#include "kernels/dense/linear.h"
#include "kernels/net/layers/form.h"
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
    struct moments *kept = (struct moments *)run->kept;
    for (int64_t r = 0; r < run->rows; r++) {
        const float *restrict x = run->x + r * n;
        float *restrict y = run->to + r * n;
        const struct moments m = kept[r] = compute_moments(n, x);
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - m.mean) * m.inverse * weight[i] + bias[i];
        if (run->relu)
            hd_layer_relu.activate(n, y);
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
    const struct moments *kept = (const struct moments *)run->kept;
    for (int64_t r = 0; r < run->rows; r++) {
        const float *restrict x = run->x + r * n, *restrict dy = run->dy + r * n;
        float *restrict dx = run->to + r * n;
        const struct moments m = kept[r];
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
    const struct moments *kept = (const struct moments *)run->kept;
    memset(dweight, 0, (size_t)n * sizeof *dweight);
    memset(dbias, 0, (size_t)n * sizeof *dbias);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *restrict x = run->x + r * n, *restrict dy = run->dy + r * n;
        const struct moments m = kept[r];
        for (int64_t i = 0; i < n; i++) {
            dweight[i] += dy[i] * ((x[i] - m.mean) * m.inverse);
            dbias[i] += dy[i];
        }
    }
}

/* -- Columns ----------------------------------------------------------------------------------- */

/* Sums are of floats over so many elements, in so many chains, then of doubles. */
enum { GROUP = 16, CHAINS = 4 };

HD_ALWAYS void add_to_total(const hd_reg chains[CHAINS], double total[HD_REG])
{
    float sum[HD_REG];
    hd_reg_store(sum, (chains[0] + chains[1]) + (chains[2] + chains[3]));
#pragma omp simd
    for (int b = 0; b < HD_REG; b++)
        total[b] += sum[b];
}

HD_ALWAYS hd_reg divide(const double total[HD_REG], int64_t n)
{
    float mean[HD_REG];
#pragma omp simd
    for (int b = 0; b < HD_REG; b++)
        mean[b] = (float)(total[b] / (double)n);
    return hd_reg_load(mean);
}

/* Calls f(count, at, ...), inlined, for the groups of n elements: for their count and first. */
#define FOR_GROUPS(n, f, ...)                                                                      \
    do {                                                                                           \
        int64_t at_ = 0;                                                                           \
        for (; at_ + GROUP <= (n); at_ += GROUP)                                                   \
            f(GROUP, at_, __VA_ARGS__);                                                            \
        f((n)-at_, at_, __VA_ARGS__);                                                              \
    } while (0)

/* The moments of columns, which are kept for the backward pass: [ld] each. */
struct kept {
    float *mean, *inverse;
};

static struct kept find_kept(const struct hd_layer_run *run)
{
    return (struct kept){run->kept, run->kept + run->x_ld};
}

HD_ALWAYS hd_reg load(const float *from, int64_t ld, int64_t i)
{
    return hd_reg_load(from + i * ld);
}

HD_ALWAYS void add_elements(int64_t n, int64_t at, const float *x, int64_t ld, double sum[HD_REG])
{
    hd_reg chains[CHAINS] = {{0}};
    for (int64_t i = 0; i < n; i++)
        chains[i % CHAINS] += load(x, ld, at + i);
    add_to_total(chains, sum);
}

HD_ALWAYS void add_squares(int64_t n, int64_t at, hd_reg mean, const float *x, int64_t ld,
                           double squares[HD_REG])
{
    hd_reg chains[CHAINS] = {{0}};
    for (int64_t i = 0; i < n; i++) {
        const hd_reg more = load(x, ld, at + i) - mean;
        chains[i % CHAINS] += more * more;
    }
    add_to_total(chains, squares);
}

/* Computes the moments of a register of columns. */
static void measure_columns(int64_t n, const float *x, int64_t ld, float *mean, float *inverse)
{
    double sum[HD_REG] = {0}, squares[HD_REG] = {0};
    FOR_GROUPS(n, add_elements, x, ld, sum);
    hd_reg_store(mean, divide(sum, n));
    FOR_GROUPS(n, add_squares, hd_reg_load(mean), x, ld, squares);
#pragma omp simd
    for (int b = 0; b < HD_REG; b++)
        inverse[b] = (float)(1 / sqrt(squares[b] / (double)n + EPSILON));
}

static void forward_columns(const struct hd_layer_run *run)
{
    const int64_t n = run->layer->in.size[0];
    const struct kept kept = find_kept(run);
    for (int64_t at = 0; at < run->rows; at += HD_REG) {
        const float *x = run->x + at;
        measure_columns(n, x, run->x_ld, kept.mean + at, kept.inverse + at);
        const hd_reg mean = hd_reg_load(kept.mean + at), inverse = hd_reg_load(kept.inverse + at);
        for (int64_t i = 0; i < n; i++) {
            const hd_reg xhat = (load(x, run->x_ld, i) - mean) * inverse;
            const hd_reg y = xhat * run->weight[i] + run->bias[i];
            hd_reg_store(run->to + i * run->ld + at, run->relu ? hd_reg_rectify(y, y) : y);
        }
    }
}

/* A register of columns, backward. */
struct columns {
    const float *weight, *x, *dy;
    int64_t x_ld, ld;
    hd_reg mean, inverse;
};

HD_ALWAYS hd_reg normalise(const struct columns *c, int64_t i)
{
    return (load(c->x, c->x_ld, i) - c->mean) * c->inverse;
}

/* Adds the derivatives by the normalised elements, and their products with these. */
HD_ALWAYS void add_derivatives(int64_t n, int64_t at, const struct columns *c, double sum[HD_REG],
                               double products[HD_REG])
{
    hd_reg chains[CHAINS] = {{0}}, of_products[CHAINS] = {{0}};
    for (int64_t i = 0; i < n; i++) {
        const hd_reg dy = load(c->dy, c->ld, at + i) * c->weight[at + i];
        chains[i % CHAINS] += dy;
        of_products[i % CHAINS] += dy * normalise(c, at + i);
    }
    add_to_total(chains, sum);
    add_to_total(of_products, products);
}

static void backward_data_columns(const struct hd_layer_run *run)
{
    const int64_t n = run->layer->in.size[0];
    const struct kept kept = find_kept(run);
    for (int64_t at = 0; at < run->rows; at += HD_REG) {
        const struct columns c = {.weight = run->weight,
                                  .x = run->x + at,
                                  .dy = run->dy + at,
                                  .x_ld = run->x_ld,
                                  .ld = run->ld,
                                  .mean = hd_reg_load(kept.mean + at),
                                  .inverse = hd_reg_load(kept.inverse + at)};
        double sum[HD_REG] = {0}, products[HD_REG] = {0};
        FOR_GROUPS(n, add_derivatives, &c, sum, products);
        const hd_reg mean = divide(sum, n), slope = divide(products, n);
        for (int64_t i = 0; i < n; i++) {
            const hd_reg dy = load(c.dy, c.ld, i) * c.weight[i];
            hd_reg_store(run->to + i * run->ld + at,
                         c.inverse * (dy - mean - normalise(&c, i) * slope));
        }
    }
}

/* Adds in HD_LANES partial sums, then pairs of halves. */
static void backward_weights_columns(const struct hd_layer_run *run)
{
    const struct kept kept = find_kept(run);
    for (int64_t i = 0; i < run->layer->in.size[0]; i++) {
        const float *x = run->x + i * run->x_ld, *dy = run->dy + i * run->ld;
        float dweight[HD_LANES] = {0}, dbias[HD_LANES] = {0};
        hd_vec products = {0}, sum = {0};
        int64_t at = 0;
        for (; at + HD_VEC <= run->rows; at += HD_VEC) {
            const hd_vec more = hd_vec_load(x + at) - hd_vec_load(kept.mean + at);
            products += hd_vec_load(dy + at) * (more * hd_vec_load(kept.inverse + at));
            sum += hd_vec_load(dy + at);
        }
        hd_vec_store(dweight, products);
        hd_vec_store(dbias, sum);
        for (int64_t b = 0; at + b < run->rows; b++) {
            dweight[b] += dy[at + b] * ((x[at + b] - kept.mean[at + b]) * kept.inverse[at + b]);
            dbias[b] += dy[at + b];
        }
        run->dweight[i] = hd_vec_add_lanes(dweight);
        run->dbias[i] = hd_vec_add_lanes(dbias);
    }
}

/* -- The type ---------------------------------------------------------------------------------- */

static int64_t layer_norm_count_kept(const struct hd_layer *layer, int64_t rows, int64_t steps)
{
    (void)layer, (void)steps;
    return 2 * hd_linear_get_ld(rows);
}

static void layer_norm_forward(const struct hd_layer_run *run)
{
    (run->form->columns ? forward_columns : forward_rows)(run);
}

static void layer_norm_backward_data(const struct hd_layer_run *run)
{
    (run->form->columns ? backward_data_columns : backward_data_rows)(run);
}

static void layer_norm_backward_weights(const struct hd_layer_run *run)
{
    (run->form->columns ? backward_weights_columns : backward_weights_rows)(run);
}

const struct hd_layer_type hd_layer_layer_norm = {
    .name = "layer_norm",
    .form = HD_FORM_COLUMNS,
    .keeps_rows = true,
    .has_relu = true,
    .infer = hd_layer_keep_shape,
    .list_tensors = layer_norm_list_tensors,
    .count_kept = layer_norm_count_kept,
    .forward = layer_norm_forward,
    .backward_data = layer_norm_backward_data,
    .backward_weights = layer_norm_backward_weights,
    .gpu = HD_ON_GPU(hd_layer_norm_on_gpu),
};
