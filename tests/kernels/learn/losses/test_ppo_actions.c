/* SPDX-License-Identifier: Apache-2.0 */
/* PPO's loss for actions of several choices and of real numbers: sums against a naive version in
 * double, derivatives by its differences, and both against PyTorch's distributions. */
#include "kernels/act/gaussian.h"
#include "kernels/learn/losses/ppo_loss.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/golden/golden.h"
#include "tests/kernels/common/device.h"

#include <math.h>

enum { ROWS = 80, DIMS = 3, MAX_LOGITS = 9, GOLDEN_ROWS = 8 };

static const int32_t choices[] = {2, 4, 3};

typedef void loss_kernel(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p);

struct data {
    float out[ROWS * (MAX_LOGITS + 1)], old[ROWS * MAX_LOGITS], value[ROWS], adv[ROWS];
    union hd_action_number action[ROWS * DIMS];
};

/* Policies that have moved by up to +-0.2; entropies count. */
static struct hd_ppo_loss make(struct data *d, bool gaussian)
{
    const struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    const int logits = gaussian ? 2 * DIMS : 9;
    uint32_t item = 0;
    for (int b = 0; b < ROWS; b++) {
        for (int j = 0; j < logits; j++) {
            float *old = &d->old[b * logits + j];
            *old = (float)(2 * hd_rng_draw_uniform(&rng, item++) - 1);
            d->out[b * (logits + 1) + j] =
                *old + (float)(.4 * hd_rng_draw_uniform(&rng, item++) - .2);
        }
        d->out[b * (logits + 1) + logits] = (float)hd_rng_draw_uniform(&rng, item++);
        d->value[b] = (float)hd_rng_draw_uniform(&rng, item++);
        d->adv[b] = (float)(4 * hd_rng_draw_uniform(&rng, item++) - 2);
        for (int i = 0; i < DIMS; i++, item++)
            if (gaussian)
                d->action[b * DIMS + i].real = (float)(3 * hd_rng_draw_uniform(&rng, item) - 1.5);
            else
                d->action[b * DIMS + i].choice = (int32_t)hd_rng_draw_below(&rng, item, choices[i]);
    }
    struct hd_ppo_loss loss = {.batch = ROWS,
                               .logits = logits,
                               .dims = DIMS,
                               .gaussian = gaussian,
                               .clip = .2f,
                               .value_weight = .5f,
                               .entropy_weight = .03f,
                               .out = d->out,
                               .logit_old = d->old,
                               .value_old = d->value,
                               .advantage = d->adv,
                               .target = d->value,
                               .action = d->action};
    for (int i = 0; i < DIMS; i++)
        loss.choices[i] = gaussian ? 0 : choices[i];
    return loss;
}

/* The probability of a row's action, and the entropy and divergence of its distribution. */
struct naive {
    double log_p, log_old, entropy, kl;
};

static void add_naive_choice(const double *out, const float *old, int n, int choice,
                             struct naive *is)
{
    double sum = 0, sum_old = 0;
    for (int j = 0; j < n; j++) {
        sum += exp(out[j]);
        sum_old += exp((double)old[j]);
    }
    for (int j = 0; j < n; j++) {
        const double p = exp(out[j]) / sum, q = exp((double)old[j]) / sum_old;
        is->entropy -= p * log(p);
        is->kl += q * log(q / p);
    }
    is->log_p += out[choice] - log(sum);
    is->log_old += (double)old[choice] - log(sum_old);
}

static double density(double mean, double log_std, double x)
{
    const double z = (x - mean) / exp(log_std);
    return -z * z / 2 - log_std - log(2 * M_PI) / 2;
}

static void add_naive_real(const double *out, const float *old, double x, struct naive *is)
{
    const double std = exp(out[DIMS]), std_old = exp((double)old[DIMS]), shift = old[0] - out[0];
    is->log_p += density(out[0], out[DIMS], x);
    is->log_old += density(old[0], old[DIMS], x);
    is->entropy += log(2 * M_PI * exp(1)) / 2 + out[DIMS];
    is->kl += log(std / std_old) + (std_old * std_old + shift * shift) / (2 * std * std) - 0.5;
}

static struct naive naive_terms(const struct hd_ppo_loss *l, int b, const double *out)
{
    const float *old = l->logit_old + b * l->logits;
    struct naive is = {0};
    for (int i = 0, at = 0; i < DIMS; at += choices[i++])
        if (l->gaussian)
            add_naive_real(out + i, old + i, l->action[b * DIMS + i].real, &is);
        else
            add_naive_choice(out + at, old + at, choices[i], l->action[b * DIMS + i].choice, &is);
    return is;
}

static double naive_loss(const struct hd_ppo_loss *l, int b, const double *out, bool *clipped_p)
{
    const struct naive is = naive_terms(l, b, out);
    const double ratio = exp(is.log_p - is.log_old), adv = l->advantage[b];
    const double bounded = fmin(fmax(ratio, 0.8), 1.2), error = out[l->logits] - l->target[b];
    *clipped_p = fabs(ratio - 1) > 0.2;
    return -fmin(ratio * adv, bounded * adv) + 0.25 * error * error - 0.03 * is.entropy;
}

static void check_row(const struct hd_ppo_loss *l, int b, const float *dout, double *row)
{
    const double h = 1e-6;
    for (int j = 0; j <= l->logits; j++) {
        const double x = row[j];
        bool left_clipped, right_clipped;
        row[j] = x + h;
        const double right = naive_loss(l, b, row, &right_clipped);
        row[j] = x - h;
        const double left = naive_loss(l, b, row, &left_clipped);
        row[j] = x;
        if (left_clipped == right_clipped)
            ck_assert_double_eq_tol(dout[j], (right - left) / (2 * h),
                                    2e-4 * (1 + fabs((double)dout[j])));
    }
}

static void check(loss_kernel *differentiate, bool gaussian)
{
    struct data data;
    const struct hd_ppo_loss loss = make(&data, gaussian);
    const int64_t width = loss.logits + 1;
    float dout[ROWS * (MAX_LOGITS + 1)];
    struct hd_ppo_sums sums;
    double entropy = 0, kl = 0, approx_kl = 0, clipped = 0;
    differentiate(&loss, dout, &sums);
    for (int b = 0; b < ROWS; b++) {
        double row[MAX_LOGITS + 1];
        bool is_clipped;
        for (int64_t j = 0; j < width; j++)
            row[j] = data.out[b * width + j];
        const struct naive is = naive_terms(&loss, b, row);
        naive_loss(&loss, b, row, &is_clipped);
        entropy += is.entropy;
        kl += is.kl;
        approx_kl += is.log_old - is.log_p;
        clipped += is_clipped;
        check_row(&loss, b, dout + b * width, row);
    }
    ck_assert_double_eq_tol(sums.entropy, entropy, 1e-3);
    ck_assert_double_eq_tol(sums.kl, kl, 1e-3);
    ck_assert_double_eq_tol(sums.approx_kl, approx_kl, 1e-3);
    ck_assert_double_eq(sums.clipfrac, clipped);
    ck_assert(clipped > 5 && clipped < ROWS - 5);
}

TEST(several_numbers, .runs = 2)
{
    check(hd_ppo_loss_compute, _i == 1);
}

/* -- Against PyTorch --------------------------------------------------------------------------- */

/* Returns the list of.key, n numbers, which are exact in single precision. */
static float *floats(struct golden of, const char *key, int n)
{
    double *numbers = test_alloc(n, sizeof *numbers);
    float *floats = test_alloc(n, sizeof *floats);
    golden_read(of, key, n, numbers);
    for (int i = 0; i < n; i++)
        floats[i] = (float)numbers[i];
    return floats;
}

static void check_sum(double found, struct golden of, const char *key)
{
    CHECK_CLOSE(found, golden_number(of, "%s", key), GOLDEN_ROWS, 1e-6, key);
}

TEST(golden_numbers, .runs = golden_count(golden_open("ppo_actions"), "losses"))
{
    const struct golden of = golden_get(golden_open("ppo_actions"), "losses/%d", _i);
    const bool gaussian = golden_number(of, "gaussian") == 1;
    const int logits = (int)golden_number(of, "logits");
    const float *numbers = floats(of, "action", 2 * GOLDEN_ROWS);
    union hd_action_number action[2 * GOLDEN_ROWS];
    for (int i = 0; i < 2 * GOLDEN_ROWS; i++)
        if (gaussian)
            action[i].real = numbers[i];
        else
            action[i].choice = (int32_t)numbers[i];
    const struct hd_ppo_loss loss = {.batch = GOLDEN_ROWS,
                                     .logits = logits,
                                     .dims = 2,
                                     .gaussian = gaussian,
                                     .choices = {gaussian ? 0 : 2, gaussian ? 0 : 3},
                                     .clip = .2f,
                                     .value_weight = .5f,
                                     .entropy_weight = .03f,
                                     .out = floats(of, "out", GOLDEN_ROWS * (logits + 1)),
                                     .logit_old = floats(of, "old", GOLDEN_ROWS * logits),
                                     .value_old = floats(of, "value_old", GOLDEN_ROWS),
                                     .advantage = floats(of, "advantage", GOLDEN_ROWS),
                                     .target = floats(of, "target", GOLDEN_ROWS),
                                     .action = action};
    float dout[GOLDEN_ROWS * 6];
    struct hd_ppo_sums sums;
    hd_ppo_loss_compute(&loss, dout, &sums);
    check_sum(sums.policy, of, "policy");
    check_sum(sums.value, of, "value");
    check_sum(sums.entropy, of, "entropy");
    check_sum(sums.approx_kl, of, "approx_kl");
    check_sum(sums.kl, of, "kl");
    ck_assert_double_eq(sums.clipfrac, golden_number(of, "clipfrac"));
    ck_assert_int_eq(golden_count(of, "dout"), GOLDEN_ROWS * (logits + 1));
    for (int i = 0; i < GOLDEN_ROWS * (logits + 1); i++)
        CHECK_CLOSE(dout[i], golden_number(of, "dout/%d", i), 1, 1e-5, "dout");
}

TEST(golden_squashed_numbers, .runs = golden_count(golden_open("ppo_actions"), "squashed"))
{
    const struct golden is = golden_get(golden_open("ppo_actions"), "squashed/%d", _i);
    const double log_prob = golden_number(is, "log_prob");
    const struct hd_squashed drawn =
        hd_squashed_draw((float)golden_number(is, "mean"), (float)golden_number(is, "log_std"),
                         golden_number(is, "noise"));
    CHECK_CLOSE(drawn.action, golden_number(is, "action"), 1, 1e-6, "action");
    CHECK_CLOSE(drawn.log_prob, log_prob, 1 + fabs(log_prob), 1e-6, "log_prob");
}

#if HD_CUDA
static void on_device(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p)
{
    const int64_t row = ROWS * (int64_t)sizeof(float), logits = row * loss->logits;
    struct hd_ppo_loss there = *loss;
    struct hd_ppo_sums *sums = device_shared(sizeof *sums);
    float *dout_there = device_make(NULL, logits + row);
    there.out = device_make(loss->out, logits + row);
    there.logit_old = device_make(loss->logit_old, logits);
    there.value_old = there.target = device_make(loss->target, row);
    there.advantage = device_make(loss->advantage, row);
    there.action = device_make(loss->action, row * DIMS);
    ck_assert_int_eq(hd_ppo_loss_compute_cuda(&there, NULL, dout_there, sums, device_stream()),
                     HD_OK);
    device_get(dout, dout_there, logits + row);
    *sums_p = *sums;
}

TEST(several_numbers_cuda, .runs = 2, .cuda = true)
{
    check(on_device, _i == 1);
}

#endif
