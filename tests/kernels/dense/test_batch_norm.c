/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm against its definition in double, with its batch distributed over items or not; rows
 * that do not count, large means, batches of less than two samples. */
#include "kernels/dense/batch_norm.h"
#include "kernels/dense/linear.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"

enum { MAX_ITEMS = 4 };

static const struct {
    int64_t features, batch, items;
    double mean; /* of the activations, whose deviation is about 1 */
} cases[] = {{1, 2, 1, 0},    {3, 7, 1, 0.5},   {17, 16, 4, -2}, {5, 33, 2, 1},
             {40, 64, 3, 10}, {2, 100, 4, 1e4}, {9, 13, 4, 0},   {4, 300, 1, -3}};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Some of a batch's samples, X and dY feature-major; what does not count is NaN. */
struct item {
    int64_t used, ld;
    float *x, *y, *dy;
};

struct batch {
    int64_t features, count, items;
    struct item item[MAX_ITEMS];
    float *weight, *bias;
    double *sums, *back, *mean, *variance; /* of all items */
};

static double draw(uint64_t k, int64_t i, int64_t b)
{
    return 4 * fill(k, (uint64_t)(1000 * i + b)) - 2;
}

static struct batch make_batch(int c)
{
    const int64_t n = cases[c].features;
    struct batch batch = {.features = n, .count = cases[c].batch, .items = cases[c].items};
    batch.weight = test_alloc(n, 4);
    batch.bias = test_alloc(n, 4);
    batch.sums = guarded(2 * n * 8);
    batch.back = guarded(2 * n * 8);
    batch.mean = guarded(n * 8);
    batch.variance = guarded(n * 8);
    int64_t first = 0;
    for (int64_t k = 0; k < batch.items; k++) {
        struct item *item = &batch.item[k];
        const int64_t left = batch.count - first;
        item->used = k + 1 < batch.items ? left / 3 : left; /* some items may have none */
        item->ld = hd_linear_get_ld(item->used + (k % 2 ? 5 : 0));
        item->x = guarded(n * item->ld * 4);
        item->y = guarded(n * item->ld * 4);
        item->dy = guarded(n * item->ld * 4);
        for (int64_t i = 0; i < n; i++)
            for (int64_t b = 0; b < item->ld; b++) {
                const bool counts = b < item->used;
                item->x[i * item->ld + b] =
                    counts ? (float)(draw(1, i, first + b) + cases[c].mean) : NAN;
                item->dy[i * item->ld + b] = counts ? (float)draw(2, i, first + b) : NAN;
            }
        first += item->used;
    }
    for (int64_t i = 0; i < n; i++) {
        batch.weight[i] = (float)draw(3, i, 0);
        batch.bias[i] = (float)draw(4, i, 0);
    }
    return batch;
}

static void add(int64_t n, const double *from, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void run(struct batch *batch)
{
    const int64_t n = batch->features;
    double *own = guarded(2 * n * 8);
    float row[512];
    for (int64_t k = 0; k < batch->items; k++) {
        hd_batch_norm_compute_sums(n, batch->item[k].used, batch->item[k].x, batch->item[k].ld,
                                   own);
        add(2 * n, own, batch->sums);
    }
    hd_batch_norm_compute_moments(n, (double)batch->count, batch->sums, batch->mean,
                                  batch->variance);
    for (int64_t k = 0; k < batch->items; k++) {
        struct item *item = &batch->item[k];
        hd_batch_norm_forward(n, item->ld, batch->mean, batch->variance, batch->weight, batch->bias,
                              item->x, item->ld, item->y, item->ld);
        hd_batch_norm_compute_backward_sums(n, item->used, batch->mean, batch->variance, item->dy,
                                            item->ld, item->x, item->ld, row, own);
        add(2 * n, own, batch->back);
    }
    for (int64_t k = 0; k < batch->items; k++) {
        struct item *item = &batch->item[k];
        hd_batch_norm_backward(n, item->ld, item->used, (double)batch->count, batch->back,
                               batch->mean, batch->variance, batch->weight, item->x, item->ld,
                               item->dy, item->dy, item->ld);
        check_guard(item->x, n * item->ld * 4);
        check_guard(item->y, n * item->ld * 4);
        check_guard(item->dy, n * item->ld * 4);
    }
    check_guard(own, 2 * n * 8);
    check_guard(batch->mean, n * 8);
    check_guard(batch->variance, n * 8);
}

/* The definition, for one feature of all samples at a time. */
struct naive {
    double mean, variance, dbias, dweight;
    double y[300], dx[300];
};

static void define(const struct batch *given, int64_t i, struct naive *is)
{
    const int64_t n = given->count;
    double x[300], dy[300];
    int64_t at = 0;
    for (int64_t k = 0; k < given->items; k++)
        for (int64_t b = 0; b < given->item[k].used; b++, at++) {
            x[at] = given->item[k].x[i * given->item[k].ld + b];
            dy[at] = given->item[k].dy[i * given->item[k].ld + b];
        }
    ck_assert_int_eq(at, n);
    *is = (struct naive){0};
    for (int64_t b = 0; b < n; b++)
        is->mean += x[b] / (double)n;
    for (int64_t b = 0; b < n; b++)
        is->variance += (x[b] - is->mean) * (x[b] - is->mean) / (double)n;
    const double deviation = sqrt(is->variance + 1e-5), w = given->weight[i];
    for (int64_t b = 0; b < n; b++) {
        x[b] = (x[b] - is->mean) / deviation;
        is->y[b] = w * x[b] + given->bias[i];
        is->dbias += dy[b];
        is->dweight += dy[b] * x[b];
    }
    for (int64_t b = 0; b < n; b++)
        is->dx[b] =
            w / deviation * (dy[b] - is->dbias / (double)n - x[b] * is->dweight / (double)n);
}

TEST(it_is_what_its_definition_says, .runs = N_CASES)
{
    struct batch given = make_batch(_i), batch = make_batch(_i);
    static struct naive is;
    run(&batch);
    /* An activation of 1e4 is itself rounded to 1e-3 of a deviation; others have single
     * precision. */
    for (int64_t i = 0; i < batch.features; i++) {
        define(&given, i, &is);
        CHECK_CLOSE(batch.mean[i], is.mean, 1 + fabs(is.mean), 1e-14, "mean");
        CHECK_CLOSE(batch.variance[i], is.variance, 1.0, 1e-15 * (10 + is.mean * is.mean),
                    "variance");
        CHECK_CLOSE(batch.back[i], is.dbias, sqrt((double)batch.count), 1e-14, "dbias");
        CHECK_CLOSE(batch.back[batch.features + i], is.dweight, sqrt((double)batch.count), 1e-6,
                    "dweight");
        int64_t at = 0;
        for (int64_t k = 0; k < batch.items; k++)
            for (int64_t b = 0; b < batch.item[k].used; b++, at++) {
                const int64_t j = i * batch.item[k].ld + b;
                CHECK_CLOSE(batch.item[k].y[j], is.y[at], 1.0, 2e-6, "y");
                CHECK_CLOSE(batch.item[k].dy[j], is.dx[at], 1.0, 1e-5, "dx");
            }
    }
}

/* The next layer's gradients add up all columns. */
TEST(columns_that_do_not_count_become_zero, .runs = N_CASES)
{
    struct batch batch = make_batch(_i);
    run(&batch);
    for (int64_t k = 0; k < batch.items; k++)
        for (int64_t i = 0; i < batch.features; i++)
            for (int64_t b = batch.item[k].used; b < batch.item[k].ld; b++)
                ck_assert(batch.item[k].dy[i * batch.item[k].ld + b] == 0);
}

/* -- Running statistics ------------------------------------------------------------------------ */

TEST(running_statistics_follow)
{
    enum { N = 3, BATCHES = 5 };
    float mean[N] = {0}, var[N] = {1, 1, 1};
    double wanted_mean[N] = {0}, wanted_var[N] = {1, 1, 1};
    for (int t = 0; t < BATCHES; t++) {
        const double count = 2 + 3 * t;
        double m[N], v[N];
        for (int i = 0; i < N; i++) {
            m[i] = draw(5, i, t);
            v[i] = fabs(draw(6, i, t));
            wanted_mean[i] = 0.9 * wanted_mean[i] + 0.1 * m[i];
            wanted_var[i] = 0.9 * wanted_var[i] + 0.1 * v[i] * count / (count - 1);
        }
        hd_batch_norm_update_running(N, count, m, v, mean, var);
        for (int i = 0; i < N; i++) {
            CHECK_CLOSE(mean[i], wanted_mean[i], 1.0, 3e-7, "running mean");
            CHECK_CLOSE(var[i], wanted_var[i], 1.0, 3e-7, "running variance");
        }
    }
}

/* PyTorch refuses a batch of one sample, whose unbiased variance is NaN. */
TEST(less_than_two_samples_leave_no_trace)
{
    const double m[2] = {3, 4}, v[2] = {0, 0}, sums[4] = {5, 6, 25, 36}, none[4] = {0};
    float mean[2] = {1, 2}, var[2] = {3, 4}, x[2 * HD_LANES] = {0}, y[2 * HD_LANES];
    double to_mean[2], to_variance[2];
    const float weight[2] = {2, 2}, bias[2] = {0.5, -1};
    for (int count = 0; count < 2; count++) {
        hd_batch_norm_update_running(2, count, m, v, mean, var);
        ck_assert(mean[0] == 1 && mean[1] == 2 && var[0] == 3 && var[1] == 4);
        hd_batch_norm_compute_moments(2, count, count ? sums : none, to_mean, to_variance);
        ck_assert(to_variance[0] == 0 && to_variance[1] == 0 && to_mean[1] == 6 * count);
        x[0] = 5;
        x[HD_LANES] = 6;
        hd_batch_norm_forward(2, HD_LANES, to_mean, to_variance, weight, bias, x, HD_LANES, y,
                              HD_LANES);
        ck_assert(count == 0 || (y[0] == 0.5f && y[HD_LANES] == -1));
        ck_assert(isfinite(y[0]) && isfinite(y[HD_LANES]));
        hd_batch_norm_backward(2, HD_LANES, count, count, sums, to_mean, to_variance, weight, x,
                               HD_LANES, y, y, HD_LANES);
        for (int i = 0; i < 2 * HD_LANES; i++)
            ck_assert(isfinite(y[i]));
    }
}

TEST(acting_goes_by_running_statistics)
{
    enum { N = 5, COLUMNS = 2 * HD_LANES };
    float x[N * COLUMNS], y[N * COLUMNS], mean[N], var[N], weight[N], bias[N];
    for (int i = 0; i < N; i++) {
        mean[i] = (float)draw(7, i, 0);
        var[i] = (float)fabs(draw(8, i, 0));
        weight[i] = (float)draw(9, i, 0);
        bias[i] = (float)draw(10, i, 0);
        for (int b = 0; b < COLUMNS; b++)
            x[i * COLUMNS + b] = (float)draw(11, i, b);
    }
    hd_batch_norm_forward_running(N, COLUMNS, mean, var, weight, bias, x, COLUMNS, y, COLUMNS);
    for (int i = 0; i < N; i++)
        for (int b = 0; b < COLUMNS; b++) {
            const double xhat = (x[i * COLUMNS + b] - (double)mean[i]) / sqrt(var[i] + 1e-5);
            CHECK_CLOSE(y[i * COLUMNS + b], weight[i] * xhat + bias[i], 1.0, 1e-5, "y");
        }
    x[3] = NAN; /* it must not pass for 0 */
    hd_batch_norm_forward_running(1, COLUMNS, mean, var, weight, bias, x, COLUMNS, y, COLUMNS);
    ck_assert(isnan(y[3]) && !isnan(y[4]));
}
