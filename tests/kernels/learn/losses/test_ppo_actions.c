/* SPDX-License-Identifier: Apache-2.0 */
/* PPO's loss for actions of several choices and of real numbers: sums against a naive version in
 * double, derivatives by its differences, and both against PyTorch's distributions. */
#include "kernels/act/gaussian.h"
#include "kernels/learn/losses/ppo_loss.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/golden/ppo_actions.h"
#include "tests/kernels/common/device.h"

#include <math.h>

enum { ROWS = 80, DIMS = 3, MAX_LOGITS = 9 };

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

TEST(golden_numbers, .runs = 2)
{
    const struct golden_ppo *is = &golden_ppo[_i];
    union hd_action_number action[2 * GOLDEN_ROWS];
    for (int i = 0; i < 2 * GOLDEN_ROWS; i++)
        if (is->gaussian)
            action[i].real = is->action[i];
        else
            action[i].choice = (int32_t)is->action[i];
    const struct hd_ppo_loss loss = {.batch = GOLDEN_ROWS,
                                     .logits = is->logits,
                                     .dims = 2,
                                     .gaussian = is->gaussian,
                                     .choices = {is->gaussian ? 0 : 2, is->gaussian ? 0 : 3},
                                     .clip = .2f,
                                     .value_weight = .5f,
                                     .entropy_weight = .03f,
                                     .out = is->out,
                                     .logit_old = is->old,
                                     .value_old = is->value_old,
                                     .advantage = is->advantage,
                                     .target = is->target,
                                     .action = action};
    float dout[GOLDEN_ROWS * 6];
    struct hd_ppo_sums sums;
    hd_ppo_loss_compute(&loss, dout, &sums);
    CHECK_CLOSE(sums.policy, is->policy, GOLDEN_ROWS, 1e-6, "policy");
    CHECK_CLOSE(sums.value, is->value, GOLDEN_ROWS, 1e-6, "value");
    CHECK_CLOSE(sums.entropy, is->entropy, GOLDEN_ROWS, 1e-6, "entropy");
    CHECK_CLOSE(sums.approx_kl, is->approx_kl, GOLDEN_ROWS, 1e-6, "approx_kl");
    CHECK_CLOSE(sums.kl, is->kl, GOLDEN_ROWS, 1e-6, "kl");
    ck_assert_double_eq(sums.clipfrac, is->clipfrac);
    for (int i = 0; i < GOLDEN_ROWS * (is->logits + 1); i++)
        CHECK_CLOSE(dout[i], is->dout[i], 1, 1e-5, "dout");
}

TEST(golden_squashed_numbers, .runs = COUNT(golden_squashed))
{
    const struct golden_squashed *is = &golden_squashed[_i];
    const struct hd_squashed drawn = hd_squashed_draw(is->mean, is->log_std, (double)is->noise);
    CHECK_CLOSE(drawn.action, is->action, 1, 1e-6, "action");
    CHECK_CLOSE(drawn.log_prob, is->log_prob, 1 + fabs(is->log_prob), 1e-6, "log_prob");
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
