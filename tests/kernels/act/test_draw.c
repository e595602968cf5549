/* SPDX-License-Identifier: Apache-2.0 */
/* Draws of actions of all kinds, and normal distributions of their numbers: against references in
 * double, derivatives by differences, and moments of many draws. */
#include "kernels/act/categorical.h"
#include "kernels/act/draw.h"
#include "kernels/act/gaussian.h"
#include "kernels/common/normal.h"
#include "tests/harness/check.h"

#include <math.h>

static const float means[] = {0, -1.5f, 3, 0.25f}, log_stds[] = {0, -2, 1.5f, -0.5f};
enum { CASES = sizeof means / sizeof *means, DRAWS = 20000 };

static const struct hd_rng rng = {.key = {3, 5}, .shard = 1, .iteration = 2};

/* -- Normal distributions ---------------------------------------------------------------------- */

static double naive_log_prob(double mean, double log_std, double x)
{
    const double std = exp(log_std);
    return log(exp(-(x - mean) * (x - mean) / (2 * std * std)) / (std * sqrt(2 * M_PI)));
}

TEST(log_probs, .runs = CASES)
{
    const double h = 1e-6, mean = means[_i], log_std = log_stds[_i];
    for (double z = -3; z <= 3; z += 0.37) {
        const float x = (float)(mean + exp(log_std) * z);
        const struct hd_gaussian_slope slope =
            hd_gaussian_differentiate(means[_i], log_stds[_i], x);
        ck_assert_double_eq_tol(hd_gaussian_compute_log_prob(means[_i], log_stds[_i], x),
                                naive_log_prob(mean, log_std, x), 2e-5);
        ck_assert_double_eq_tol(
            slope.mean,
            (naive_log_prob(mean + h, log_std, x) - naive_log_prob(mean - h, log_std, x)) / (2 * h),
            1e-4 * (1 + fabs((double)slope.mean)));
        ck_assert_double_eq_tol(
            slope.log_std,
            (naive_log_prob(mean, log_std + h, x) - naive_log_prob(mean, log_std - h, x)) / (2 * h),
            1e-4 * (1 + fabs((double)slope.log_std)));
    }
}

/* The entropy and the divergence are expectations, here sums over a fine grid. */
TEST(expectations, .runs = CASES)
{
    const float other_mean = 0.5f, other_log_std = 0.3f;
    const double mean = means[_i], log_std = log_stds[_i], step = exp(log_std) * 1e-3;
    double entropy = 0, kl = 0;
    for (int i = -9000; i <= 9000; i++) {
        const double x = mean + step * i, log_p = naive_log_prob(mean, log_std, x);
        const double z = (x - other_mean) / exp((double)other_log_std);
        const double log_q = -z * z / 2 - other_log_std - log(sqrt(2 * M_PI));
        entropy -= exp(log_p) * log_p * step;
        kl += exp(log_p) * (log_p - log_q) * step;
    }
    ck_assert_double_eq_tol(hd_gaussian_compute_entropy(log_stds[_i]), entropy, 1e-5);
    ck_assert_double_eq_tol(
        hd_gaussian_compute_kl(means[_i], log_stds[_i], other_mean, other_log_std), kl,
        1e-5 * (1 + kl));
}

/* Beyond the bounds of the deviation nothing changes, and derivatives are zero. */
TEST(bounds)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        const float at = sign < 0 ? -20 : 2, beyond = at + 0.5f * (float)sign;
        ck_assert_float_eq(hd_gaussian_compute_entropy(beyond), hd_gaussian_compute_entropy(at));
        ck_assert_float_eq(hd_gaussian_draw(1, beyond, 0.7), hd_gaussian_draw(1, at, 0.7));
        ck_assert_float_eq(hd_gaussian_is_free(at), 1);
        ck_assert_float_eq(hd_gaussian_is_free(beyond), 0);
        ck_assert_float_eq(hd_gaussian_differentiate(0, beyond, 1e-9f).log_std, 0);
        ck_assert_float_eq(hd_squashed_draw(0.3f, beyond, 0.7).by_action.log_std, 0);
        ck_assert_float_eq(hd_squashed_draw(0.3f, beyond, 0.7).by_log_prob.log_std, 0);
    }
}

struct naive_squashed {
    double action, log_prob;
};

static struct naive_squashed naive_squash(double mean, double log_std, double noise)
{
    const double x = mean + exp(log_std) * noise, y = tanh(x);
    return (struct naive_squashed){y, -noise * noise / 2 - log_std - log(sqrt(2 * M_PI)) -
                                          log(1 - y * y)};
}

TEST(squashed, .runs = CASES)
{
    const double h = 1e-6, mean = means[_i] / 2, log_std = log_stds[_i] - 0.5;
    for (double noise = -1.5; noise <= 1.5; noise += 0.23) {
        const double z = (float)noise;
        const struct hd_squashed drawn = hd_squashed_draw((float)mean, (float)log_std, z);
        const struct naive_squashed is = naive_squash(mean, log_std, z),
                                    right = naive_squash(mean + h, log_std, z),
                                    left = naive_squash(mean - h, log_std, z),
                                    wider = naive_squash(mean, log_std + h, z),
                                    narrower = naive_squash(mean, log_std - h, z);
        ck_assert_double_eq_tol(drawn.action, is.action, 1e-6);
        ck_assert_double_eq_tol(drawn.log_prob, is.log_prob, 1e-5 * (1 + fabs(is.log_prob)));
        ck_assert_double_eq_tol(drawn.by_action.mean, (right.action - left.action) / (2 * h), 1e-5);
        ck_assert_double_eq_tol(drawn.by_action.log_std, (wider.action - narrower.action) / (2 * h),
                                1e-5);
        ck_assert_double_eq_tol(drawn.by_log_prob.mean, (right.log_prob - left.log_prob) / (2 * h),
                                1e-4);
        ck_assert_double_eq_tol(drawn.by_log_prob.log_std,
                                (wider.log_prob - narrower.log_prob) / (2 * h), 1e-4);
    }
}

/* Where tanh rounds to 1, the log probability is that of the asymptote 2 (log 2 - |x|). */
TEST(squashed_far_out)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        const struct hd_squashed drawn = hd_squashed_draw(40 * (float)sign, 0, 0);
        ck_assert_float_eq(drawn.action, (float)sign);
        ck_assert_double_eq_tol(drawn.log_prob, -log(sqrt(2 * M_PI)) - 2 * (log(2) - 40), 1e-4);
        ck_assert(isfinite(drawn.by_log_prob.mean) && drawn.by_action.mean < 1e-30f);
    }
}

/* -- Draws ------------------------------------------------------------------------------------- */

TEST(normal_numbers)
{
    double sums[4] = {0};
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double x = hd_normal_draw(&rng, i);
        for (int k = 0; k < 4; k++)
            sums[k] += pow(x, k + 1) / DRAWS;
    }
    ck_assert_double_eq_tol(sums[0], 0, 4 / sqrt(DRAWS));
    ck_assert_double_eq_tol(sums[1], 1, 4 * sqrt(2.0 / DRAWS));
    ck_assert_double_eq_tol(sums[2], 0, 4 * sqrt(15.0 / DRAWS));
    ck_assert_double_eq_tol(sums[3], 3, 4 * sqrt(96.0 / DRAWS));
}

static const struct hd_env_actions choices = {
    .kind = HD_ENV_MULTI_DISCRETE, .dims = 3, .n = {2, 4, 3}};
static const struct hd_env_actions reals = {
    .kind = HD_ENV_BOX, .dims = 2, .low = {-3, 0}, .high = {INFINITY, 8}};
static const float out[] = {0.5f, -0.5f, 1, 2, 2, 0, -1, -2, 3};

/* Each number is drawn by an item of its own, as it would be alone. */
TEST(several_choices)
{
    union hd_action_number action[3];
    for (uint32_t item = 0; item < 50; item++) {
        const float *logit = out;
        hd_act_by_draw(&choices, out, &rng, item * (uint32_t)choices.dims, action);
        for (int d = 0; d < 3; logit += choices.n[d++]) {
            const double u = hd_rng_draw_uniform(&rng, 3 * item + (uint32_t)d);
            ck_assert_int_eq(action[d].choice, hd_categorical_draw(logit, choices.n[d], u));
        }
    }
    hd_act_greedily(&choices, 0, out, action);
    ck_assert_int_eq(action[0].choice, 0);
    ck_assert_int_eq(action[1].choice, 1); /* the lowest of equal ones */
    ck_assert_int_eq(action[2].choice, 2);
}

TEST(numbers_of_a_box)
{
    union hd_action_number action[2];
    for (uint32_t item = 0; item < 50; item++) {
        hd_act_by_draw(&reals, out, &rng, 2 * item, action);
        for (int d = 0; d < 2; d++)
            ck_assert_float_eq(
                action[d].real,
                (float)((double)out[d] + exp((double)out[2 + d] > 2 ? 2 : out[2 + d]) *
                                             hd_normal_draw(&rng, 2 * item + (uint32_t)d)));
    }
    hd_act_greedily(&reals, 0, out, action);
    ck_assert(action[0].real == out[0] && action[1].real == out[1]);
}

/* A bound that is infinite counts as 1. */
TEST(random_actions)
{
    union hd_action_number action[3];
    float least[2] = {9, 9}, most[2] = {-9, -9};
    int seen[4] = {0};
    for (uint32_t i = 0; i < 500; i++) {
        hd_act_randomly(&choices, &rng, 3 * i, action);
        for (int d = 0; d < 3; d++)
            ck_assert(action[d].choice >= 0 && action[d].choice < choices.n[d]);
        seen[action[1].choice]++;
        hd_act_randomly(&reals, &rng, 2 * i, action);
        for (int d = 0; d < 2; d++) {
            least[d] = fminf(least[d], action[d].real);
            most[d] = fmaxf(most[d], action[d].real);
        }
    }
    ck_assert(seen[0] > 80 && seen[1] > 80 && seen[2] > 80 && seen[3] > 80);
    ck_assert(least[0] >= -3 && least[0] < -2.9f && most[0] <= 1 && most[0] > 0.9f);
    ck_assert(least[1] >= 0 && least[1] < 0.1f && most[1] <= 8 && most[1] > 7.9f);
}

/* Squashed numbers are in [-1, 1], and between the bounds of a box once they are scaled. */
TEST(squashed_actions)
{
    union hd_action_number action[2], scaled[2];
    float least = 9, most = -9;
    hd_act_squashed_greedily(&reals, 4, out, action);
    ck_assert(action[0].real == tanhf(out[0]) && action[1].real == tanhf(out[1]));
    for (uint32_t item = 0; item < 50; item++) {
        hd_act_squashed_by_draw(&reals, out, &rng, 2 * item, action);
        hd_act_by_draw(&reals, out, &rng, 2 * item, scaled);
        for (int d = 0; d < 2; d++)
            ck_assert_float_eq_tol(action[d].real, tanhf(scaled[d].real), 1e-6f);
    }
    for (uint32_t i = 0; i < 500; i++) {
        hd_act_squashed_randomly(2, &rng, 2 * i, action);
        least = fminf(least, action[1].real);
        most = fmaxf(most, action[1].real);
    }
    ck_assert(least >= -1 && least < -0.98f && most <= 1 && most > 0.98f);
    action[0].real = -1;
    action[1].real = 0.5f;
    hd_act_scale(&reals, action, scaled);
    ck_assert(scaled[0].real == -3 && scaled[1].real == 6);
}

TEST(descriptions)
{
    const struct hd_env_actions one = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {7}};
    char text[HD_ACTIONS_TEXT];
    ck_assert_str_eq(hd_actions_describe(&one, text), "7 actions");
    ck_assert_str_eq(hd_actions_describe(&choices, text), "actions of [2, 4, 3]");
    ck_assert_str_eq(hd_actions_describe(&reals, text), "actions of 2 real numbers");
    ck_assert_int_eq(hd_actions_count_logits(&one), 7);
    ck_assert_int_eq(hd_actions_count_logits(&choices), 9);
    ck_assert_int_eq(hd_actions_count_logits(&reals), 4);
    ck_assert(hd_actions_are_equal(&choices, &choices) && !hd_actions_are_equal(&choices, &reals));
    union hd_action_number action[] = {{.choice = 1}, {.choice = 3}, {.choice = 3}};
    ck_assert_int_ne(hd_actions_check(&choices, action, 1, text), 0);
    action[2].choice = 2;
    ck_assert_int_eq(hd_actions_check(&choices, action, 1, text), 0);
    action[1].real = NAN;
    ck_assert_int_ne(hd_actions_check(&reals, action, 1, text), 0);
}
