/* SPDX-License-Identifier: Apache-2.0 */
/* A2C's loss against its definition in double, and its derivative against differences of it. */
#include "kernels/learn/losses/a2c_loss.h"
#include "runtime/base/rng.h"
#include "tests/harness/check.h"

#include <math.h>

enum { MAX_ROWS = 33, MAX_ACTIONS = 18, GUARD = 4 };

struct data {
    struct hd_a2c_loss loss;
    float out[MAX_ROWS * (MAX_ACTIONS + 1)], advantage[MAX_ROWS], target[MAX_ROWS];
    float dout[MAX_ROWS * (MAX_ACTIONS + 1) + GUARD];
    int32_t action[MAX_ROWS];
};

static void fill(struct data *d, int64_t batch, int64_t actions, double scale)
{
    const struct hd_rng rng = hd_rng_make(4, (uint64_t)batch, actions, 0, 0);
    d->loss = (struct hd_a2c_loss){.batch = batch,
                                   .actions = actions,
                                   .value_weight = 0.7f,
                                   .entropy_weight = 0.05f,
                                   .out = d->out,
                                   .advantage = d->advantage,
                                   .target = d->target,
                                   .action = d->action};
    for (int64_t i = 0; i < batch * (actions + 1); i++)
        d->out[i] = (float)(scale * (hd_rng_draw_uniform(&rng, (uint32_t)i) - .5));
    for (int64_t b = 0; b < batch; b++) {
        d->action[b] = (int32_t)hd_rng_draw_below(&rng, 10000 + (uint32_t)b, actions);
        d->advantage[b] = (float)(4 * (hd_rng_draw_uniform(&rng, 20000 + (uint32_t)b) - .5));
        d->target[b] = (float)(8 * (hd_rng_draw_uniform(&rng, 30000 + (uint32_t)b) - .5));
    }
    for (int i = 0; i < GUARD; i++)
        d->dout[batch * (actions + 1) + i] = 7;
}

/* The terms of row b when output `at` is larger by `more`. */
static void naive(const struct data *d, int64_t b, int64_t at, double more, double *policy,
                  double *value, double *entropy)
{
    const int64_t n = d->loss.actions;
    double out[MAX_ACTIONS + 1], max = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= n; j++)
        out[j] = d->out[b * (n + 1) + j] + (j == at ? more : 0);
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, out[j]);
    for (int64_t j = 0; j < n; j++)
        sum += exp(out[j] - max);
    *entropy = 0;
    for (int64_t j = 0; j < n; j++)
        *entropy -= exp(out[j] - max) / sum * (out[j] - max - log(sum));
    *policy = -(out[d->action[b]] - max - log(sum)) * d->advantage[b];
    *value = (out[n] - d->target[b]) * (out[n] - d->target[b]);
}

static double total(const struct data *d, int64_t b, int64_t at, double more)
{
    double policy, value, entropy;
    naive(d, b, at, more, &policy, &value, &entropy);
    return policy + (double)d->loss.value_weight * value - (double)d->loss.entropy_weight * entropy;
}

static void check(struct data *d)
{
    const int64_t n = d->loss.actions;
    const double h = 1e-5;
    struct hd_a2c_sums sums;
    double policy = 0, value = 0, entropy = 0, adv = 0, v = 0;
    hd_a2c_loss_compute(&d->loss, d->dout, &sums);
    for (int64_t b = 0; b < d->loss.batch; b++) {
        double p, e, h_b;
        naive(d, b, -1, 0, &p, &e, &h_b);
        policy += p, value += e, entropy += h_b, adv += d->advantage[b];
        v += d->out[b * (n + 1) + n];
        for (int64_t j = 0; j <= n; j++) {
            const double wanted = (total(d, b, j, h) - total(d, b, j, -h)) / (2 * h);
            ck_assert_double_eq_tol(d->dout[b * (n + 1) + j], wanted, 1e-5 * (1 + fabs(wanted)));
        }
    }
    const double tolerance = 1e-5 * (1 + fabs(policy) + value + entropy);
    ck_assert_double_eq_tol(sums.policy, policy, tolerance);
    ck_assert_double_eq_tol(sums.value, value, tolerance);
    ck_assert_double_eq_tol(sums.entropy, entropy, tolerance);
    ck_assert_double_eq_tol(sums.adv, adv, tolerance);
    ck_assert_double_eq_tol(sums.v, v, tolerance);
    for (int i = 0; i < GUARD; i++)
        ck_assert_float_eq(d->dout[d->loss.batch * (n + 1) + i], 7);
}

TEST(loss_and_derivative)
{
    static const int64_t actions[] = {1, 2, 3, 6, 18};
    static const double scales[] = {0, 1, 30};
    static struct data d;
    for (int64_t batch = 0; batch <= MAX_ROWS; batch += 11)
        for (int a = 0; a < 5; a++)
            for (int s = 0; s < 3; s++) {
                fill(&d, batch, actions[a], scales[s]);
                check(&d);
            }
}
