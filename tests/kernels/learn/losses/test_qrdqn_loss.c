/* SPDX-License-Identifier: Apache-2.0 */
/* QR-DQN's loss against its definition in double, and its derivative against differences of it. */
#include "kernels/learn/losses/qrdqn_loss.h"
#include "runtime/base/rng.h"
#include "tests/harness/check.h"

#include <math.h>

enum { MAX_ROWS = 9, MAX_ACTIONS = 4, MAX_QUANTILES = 32, STEPS = 2, GUARD = 4 };
enum { MAX_OUT = MAX_ROWS * MAX_ACTIONS * MAX_QUANTILES };

struct data {
    struct hd_qrdqn_loss loss;
    float q[MAX_OUT], online[MAX_OUT], target[MAX_OUT], dq[MAX_OUT + GUARD], td[MAX_ROWS];
    float reward[STEPS * MAX_ROWS], done[MAX_ROWS], value_gamma[MAX_ROWS], importance[MAX_ROWS];
    int32_t action[MAX_ROWS];
};

static void fill_floats(float *to, int64_t n, uint64_t stream, double scale)
{
    const struct hd_rng rng = hd_rng_make(5, stream, n, 0, 0);
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(scale * (hd_rng_draw_uniform(&rng, (uint32_t)i) - .5));
}

static void fill(struct data *d, int64_t batch, int64_t actions, int64_t quantiles, double scale,
                 bool weighted)
{
    const int64_t n = batch * actions * quantiles;
    const struct hd_rng rng = hd_rng_make(6, (uint64_t)batch, actions, 0, 0);
    fill_floats(d->q, n, 1, scale);
    fill_floats(d->online, n, 2, scale);
    fill_floats(d->target, n, 3, scale);
    fill_floats(d->reward, STEPS * MAX_ROWS, 4, 2);
    fill_floats(d->importance, batch, 5, 3);
    for (int64_t b = 0; b < batch; b++) {
        d->action[b] = (int32_t)hd_rng_draw_below(&rng, (uint32_t)b, actions);
        d->done[b] = b % 3 == 0;
        d->value_gamma[b] = 0.5f + 0.01f * (float)b;
    }
    for (int i = 0; i < GUARD; i++)
        d->dq[n + i] = 7;
    d->loss = (struct hd_qrdqn_loss){.rows = {.batch = batch,
                                              .actions = actions,
                                              .nstep = STEPS,
                                              .gamma = 0.9f,
                                              .q = d->q,
                                              .online_next = d->online,
                                              .target_next = d->target,
                                              .action = d->action,
                                              .reward = d->reward,
                                              .ld_reward = MAX_ROWS,
                                              .done = d->done,
                                              .value_gamma = weighted ? d->value_gamma : NULL,
                                              .importance = weighted ? d->importance : NULL},
                                     .quantiles = quantiles};
}

static double mean_of(const float *quantile, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)quantile[i];
    return sum / (double)n;
}

/* Row b's loss without importance when quantile `at` of its action is larger by `more`. */
static double naive(const struct data *d, int64_t b, int64_t at, double more)
{
    const struct hd_dqn_loss *rows = &d->loss.rows;
    const int64_t n = d->loss.quantiles, first = b * rows->actions * n;
    const double gamma = (double)rows->gamma;
    const double factor = rows->value_gamma ? (double)d->value_gamma[b] : gamma * gamma;
    const double reward = (double)d->reward[b] + gamma * (double)d->reward[MAX_ROWS + b];
    int64_t best = 0;
    for (int64_t a = 1; a < rows->actions; a++)
        if (mean_of(d->online + first + a * n, n) > mean_of(d->online + first + best * n, n))
            best = a;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            const double t = reward + factor * (1 - (double)d->done[b]) *
                                          (double)d->target[first + best * n + j];
            const double error =
                t - (double)d->q[first + d->action[b] * n + i] - (i == at ? more : 0);
            const double huber = fabs(error) < 1 ? error * error / 2 : fabs(error) - 0.5;
            sum += fabs(((double)i + 0.5) / (double)n - (error < 0)) * huber / (double)n;
        }
    return sum;
}

static void check(struct data *d)
{
    const struct hd_dqn_loss *rows = &d->loss.rows;
    const int64_t n = d->loss.quantiles, width = rows->actions * n;
    const double h = 1e-6;
    struct hd_dqn_sums sums;
    double loss = 0, q = 0, target = 0;
    hd_qrdqn_loss_compute(&d->loss, d->dq, d->td, &sums);
    for (int64_t b = 0; b < rows->batch; b++) {
        const double importance = rows->importance ? (double)d->importance[b] : 1;
        const double row = naive(d, b, -1, 0);
        ck_assert_double_eq_tol((double)d->td[b], row, 1e-5 * (1 + row));
        loss += importance * row;
        for (int64_t k = 0; k < width; k++) {
            const int64_t i = k - d->action[b] * n;
            const double wanted =
                i < 0 || i >= n ? 0
                                : importance * (naive(d, b, i, h) - naive(d, b, i, -h)) / (2 * h);
            ck_assert_double_eq_tol((double)d->dq[b * width + k], wanted, 1e-4);
            q += (double)d->q[b * width + k];
            target += (double)d->target[b * width + k];
        }
    }
    ck_assert_double_eq_tol(sums.loss, loss, 1e-5 * (1 + fabs(loss)));
    ck_assert_double_eq_tol(sums.q, q, 1e-9);
    ck_assert_double_eq_tol(sums.target_q, target, 1e-9);
    for (int i = 0; i < GUARD; i++)
        ck_assert_float_eq(d->dq[rows->batch * width + i], 7);
}

TEST(loss_and_derivative)
{
    static const int64_t quantiles[] = {1, 2, 5, 32};
    static struct data d;
    for (int64_t batch = 0; batch <= MAX_ROWS; batch += 3)
        for (int64_t actions = 1; actions <= MAX_ACTIONS; actions++)
            for (int k = 0; k < 8; k++) {
                fill(&d, batch, actions, quantiles[k / 2], k % 3 ? 6 : 0.5, k % 2);
                check(&d);
            }
}

/* One quantile is the median: while errors are below 1, its loss is a quarter of the squared error.
 */
TEST(one_quantile_is_a_quarter_of_dqn, .runs = 2)
{
    static struct data d;
    static float dq[MAX_ROWS * 2], td[MAX_ROWS];
    struct hd_dqn_sums sums;
    fill(&d, MAX_ROWS, 2, 1, 0.1, _i);
    for (int64_t i = 0; i < STEPS * MAX_ROWS; i++)
        d.reward[i] *= 0.1f;
    hd_qrdqn_loss_compute(&d.loss, d.dq, d.td, &sums);
    hd_dqn_loss_compute(&d.loss.rows, dq, td, &sums);
    for (int64_t b = 0; b < MAX_ROWS; b++) {
        ck_assert_double_eq_tol((double)d.td[b], (double)td[b] / 4, 1e-7);
        for (int a = 0; a < 2; a++)
            ck_assert_double_eq_tol((double)d.dq[2 * b + a], (double)dq[2 * b + a] / 4, 1e-7);
    }
}
