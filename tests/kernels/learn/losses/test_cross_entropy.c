/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy against its definition in double, and its derivative against differences of it. */
#include "kernels/learn/losses/cross_entropy.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#include <string.h>

/* hd_cross_entropy_compute or its form on a GPU. */
typedef void loss_kernel(const struct hd_cross_entropy *loss, float *dlogit,
                         struct hd_cross_entropy_sums *sums_p);

enum { MAX_ROWS = 33, MAX_ACTIONS = 18, GUARD = 4 };

struct data {
    struct hd_cross_entropy loss;
    float logit[MAX_ROWS * MAX_ACTIONS], weight[MAX_ROWS];
    float dlogit[MAX_ROWS * MAX_ACTIONS + GUARD];
    int32_t action[MAX_ROWS];
};

static struct data *fill(struct data *d, int64_t batch, int64_t actions, double scale)
{
    const struct hd_rng rng = hd_rng_make(3, (uint64_t)batch, actions, 0, 0);
    d->loss = (struct hd_cross_entropy){batch, actions, d->logit, d->action, d->weight};
    for (int64_t i = 0; i < batch * actions; i++)
        d->logit[i] = (float)(scale * (hd_rng_draw_uniform(&rng, (uint32_t)i) - .5));
    for (int64_t b = 0; b < batch; b++) {
        d->action[b] = (int32_t)hd_rng_draw_below(&rng, 10000 + (uint32_t)b, actions);
        d->weight[b] = (float)hd_rng_draw_below(&rng, 20000 + (uint32_t)b, 3) / 2;
    }
    for (int i = 0; i < GUARD; i++)
        d->dlogit[batch * actions + i] = 7;
    return d;
}

static double naive(const float *logit, int64_t n, int32_t action)
{
    double max = -INFINITY, sum = 0;
    for (int64_t a = 0; a < n; a++)
        max = fmax(max, logit[a]);
    for (int64_t a = 0; a < n; a++)
        sum += exp(logit[a] - max);
    return log(sum) + max - logit[action];
}

static bool hit(const float *logit, int64_t n, int32_t action)
{
    for (int64_t a = 0; a < n; a++)
        if (logit[a] > logit[action] || (logit[a] == logit[action] && a < action))
            return false;
    return true;
}

static void check_sums(const struct data *d, const struct hd_cross_entropy_sums *sums)
{
    const int64_t n = d->loss.actions;
    struct hd_cross_entropy_sums wanted = {0};
    for (int64_t b = 0; b < d->loss.batch; b++) {
        const float *row = d->logit + b * n;
        const double error = naive(row, n, d->action[b]), weight = d->weight[b];
        wanted.loss += error;
        wanted.weight += weight;
        wanted.weighted_loss += weight * error;
        wanted.weighted_hits += weight * hit(row, n, d->action[b]);
    }
    const double tolerance = 1e-6 * (1 + wanted.loss);
    ck_assert_double_eq_tol(sums->loss, wanted.loss, tolerance);
    ck_assert_double_eq_tol(sums->weighted_loss, wanted.weighted_loss, tolerance);
    ck_assert_double_eq(sums->weight, wanted.weight);
    ck_assert_double_eq(sums->weighted_hits, wanted.weighted_hits);
}

static void check_all(loss_kernel *differentiate)
{
    static const int64_t actions[] = {1, 2, 3, 6, 18};
    static const double scales[] = {0, 1, 30};
    static struct data d;
    for (int64_t batch = 0; batch <= MAX_ROWS; batch += 11)
        for (int k = 0; k < 15; k++) {
            struct hd_cross_entropy_sums sums = {.loss = NAN};
            const int64_t n = actions[k / 3];
            differentiate(&fill(&d, batch, n, scales[k % 3])->loss, d.dlogit, &sums);
            check_sums(&d, &sums);
            for (int64_t i = 0; i < batch * n; i++) {
                float *row = d.logit + i / n * n, kept = d.logit[i];
                const float step = 1e-3f;
                d.logit[i] = kept + step;
                double up = naive(row, n, d.action[i / n]), above = d.logit[i];
                d.logit[i] = kept - step;
                double slope = (up - naive(row, n, d.action[i / n])) / (above - (double)d.logit[i]);
                d.logit[i] = kept;
                ck_assert_double_eq_tol(d.dlogit[i], slope, 2e-6);
            }
            for (int i = 0; i < GUARD; i++)
                ck_assert_float_eq(d.dlogit[batch * n + i], 7);
        }
}

TEST(sums_and_derivative)
{
    check_all(hd_cross_entropy_compute);
}

/* Checks logits that differ by more than any exponent can represent. */
static void check_sure(loss_kernel *differentiate)
{
    static const float logit[] = {300, -300, 0, 1, 1, -1};
    static const int32_t action[] = {1, 0};
    static const float weight[] = {1, 1};
    const struct hd_cross_entropy loss = {2, 3, logit, action, weight};
    struct hd_cross_entropy_sums sums;
    float d[6];
    differentiate(&loss, d, &sums);
    ck_assert_double_eq_tol(sums.loss, 600 + naive(logit + 3, 3, 0), 1e-4);
    ck_assert(d[0] == 1 && d[1] == -1 && d[2] == 0);
    ck_assert_double_eq(sums.weighted_hits, 1); /* the first of equals */
    static const float nan_logit[] = {NAN, 0, 0};
    const struct hd_cross_entropy bad = {1, 3, nan_logit, action, weight};
    differentiate(&bad, d, &sums);
    ck_assert(isnan(sums.loss));
}

TEST(sure_of_it)
{
    check_sure(hd_cross_entropy_compute);
}

#if HD_CUDA

/* Calls hd_cross_entropy_compute_cuda on copies of what the loss points to. */
static void run_on_device(const struct hd_cross_entropy *loss, const int64_t *used, float *dlogit,
                          struct hd_cross_entropy_sums *sums_p)
{
    const int64_t rows = loss->batch * sizeof(float), matrix = rows * loss->actions;
    struct hd_cross_entropy there = *loss;
    struct hd_cross_entropy_sums *sums = device_shared(sizeof *sums);
    float *dlogit_there = device_make(NULL, matrix);
    there.logit = device_make(loss->logit, matrix);
    there.action = device_make(loss->action, rows);
    there.weight = device_make(loss->weight, rows);
    ck_assert_int_eq(hd_cross_entropy_compute_cuda(&there,
                                                   used ? device_make(used, sizeof *used) : NULL,
                                                   dlogit_there, sums, device_stream()),
                     HD_OK);
    device_get(dlogit, dlogit_there, matrix);
    *sums_p = *sums;
    free_device_blocks();
}

static void on_device(const struct hd_cross_entropy *loss, float *dlogit,
                      struct hd_cross_entropy_sums *sums_p)
{
    run_on_device(loss, NULL, dlogit, sums_p);
}

TEST(cuda_sums_and_derivative, .cuda = true)
{
    check_all(on_device);
}

TEST(cuda_sure_of_it, .cuda = true)
{
    check_sure(on_device);
}

enum { MANY = 1100, CHOICES = 6 };

/* The results are the CPU's but for some last bits of exp and log, and rows that are not used get
 * zeros. */
TEST(cuda_rows_are_the_cpu_s, .cuda = true)
{
    static const int64_t uses[] = {0, 1, 511, 512, 513, MANY, MANY + 7};
    static float logit[MANY * CHOICES], weight[MANY], found[MANY * CHOICES], wanted[MANY * CHOICES];
    static int32_t action[MANY];
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 0, 0);
    for (int i = 0; i < MANY * CHOICES; i++)
        logit[i] = (float)hd_rng_draw_below(&rng, (uint32_t)i, 5); /* with ties */
    for (int b = 0; b < MANY; b++) {
        action[b] = (int32_t)hd_rng_draw_below(&rng, 10000 + (uint32_t)b, CHOICES);
        weight[b] = (float)hd_rng_draw_below(&rng, 20000 + (uint32_t)b, 3) / 2;
    }
    for (int k = 0; k < 7; k++) {
        struct hd_cross_entropy loss = {MANY, CHOICES, logit, action, weight};
        struct hd_cross_entropy_sums sums, is;
        run_on_device(&loss, &uses[k], found, &sums);
        loss.batch = uses[k] < MANY ? uses[k] : MANY;
        hd_cross_entropy_compute(&loss, wanted, &is);
        const int64_t n = loss.batch * CHOICES;
        for (int64_t i = 0; i < MANY * CHOICES; i++)
            CHECK_CLOSE(found[i], i < n ? wanted[i] : 0, 1.0, i < n ? 1e-6 : 0, "derivative");
        CHECK_CLOSE(sums.loss, is.loss, 1 + is.loss, 1e-6, "loss");
        CHECK_CLOSE(sums.weighted_loss, is.weighted_loss, 1 + is.loss, 1e-6, "weighted loss");
        ck_assert_double_eq(sums.weight, is.weight);
        ck_assert_double_eq(sums.weighted_hits, is.weighted_hits);
    }
}

#endif
