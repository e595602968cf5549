/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels of PPO against the numbers of spec 9.4 and naive references in double: advantage
 * estimation, running statistics, draws from logits. */
#include "kernels/categorical.h"
#include "kernels/gae.h"
#include "kernels/statistics.h"
#include "runtime/base/rng.h"

#include <check.h>
#include <math.h>

/* -- Advantages ----------------------------------------------------------------------------------
 */

START_TEST(advantages_of_the_spec)
{
    const float v[] = {.5f, .6f, .7f, .8f, .2f, .1f}, next[] = {.6f, .7f, .9f, .2f, .1f, .4f};
    const float r[] = {1, 0, -1, .5f, 1, 0}, done[] = {0, 0, 1, 0, 0, 0},
                end[] = {0, 0, 1, 0, 1, 0};
    const double expected[] = {-0.32225192, -1.5058501, -1.7, 0.74350953, 0.89899999, 0.296};
    struct hd_gae gae = {6, .99f, .95f, v, next, r, done, end};
    float adv[6];
    hd_gae(&gae, adv);
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq_tol(adv[i], expected[i], 1e-6);
    gae.end = done;
    hd_gae(&gae, adv);
    ck_assert_double_eq_tol(adv[3], 1.0053334, 1e-6);
    ck_assert_double_eq_tol(adv[4], 1.177388, 1e-6);
}
END_TEST

/* With lambda = 1 and values that follow one another an advantage is the discounted return of the
 * chunk, bootstrap included, minus the value; with lambda = 0 it is the one-step error. */
START_TEST(advantages_by_theory)
{
    enum { N = 50 };
    struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    float v[N + 1], r[N], zero[N] = {0}, end[N] = {0}, adv[N];
    for (int i = 0; i <= N; i++)
        v[i] = (float)hd_rng_uniform(&rng, (uint32_t)i);
    for (int i = 0; i < N; i++)
        r[i] = (float)hd_rng_uniform(&rng, (uint32_t)(100 + i));
    end[19] = 1;
    struct hd_gae gae = {N, .9f, 1, v, v + 1, r, zero, end};
    hd_gae(&gae, adv);
    double value = v[N];
    for (int i = N - 1; i >= 0; i--) {
        if (i == 19)
            value = v[20];
        value = r[i] + (double)gae.gamma * value;
        ck_assert_double_eq_tol(adv[i], value - v[i], 1e-5);
    }
    gae.lambda = 0;
    hd_gae(&gae, adv);
    for (int i = 0; i < N; i++)
        ck_assert_double_eq_tol(adv[i], r[i] + (double)gae.gamma * v[i + 1] - v[i], 1e-6);
}
END_TEST

/* -- Statistics ----------------------------------------------------------------------------------
 */

START_TEST(running_statistics_of_the_spec)
{
    double count = 1e-4, mean = 0, squares = 1e-4, c, m, s;
    const struct hd_statistics running = {&count, &mean, &squares}, batch = {&c, &m, &s};
    const float first[] = {1, 2, 3, 4}, second[] = {-1, 0, 5};
    hd_statistics_of(first, 4, 1, batch);
    hd_statistics_merge(running, batch, 1);
    ck_assert_double_eq_tol(mean, 2.4999375, 1e-7);
    ck_assert_double_eq_tol(squares / count, 1.25015, 1e-5);
    hd_statistics_of(second, 3, 1, batch);
    hd_statistics_merge(running, batch, 1);
    ck_assert_double_eq_tol(mean, 1.9999714, 1e-7);
    ck_assert_double_eq_tol(sqrt(squares / count + 1e-8), 2.0000036, 1e-6);
    hd_statistics_of(second, 0, 1, batch);
    hd_statistics_merge(running, batch, 1);
    ck_assert_double_eq_tol(mean, 1.9999714, 1e-7);
}
END_TEST

START_TEST(statistics_of_bytes)
{
    enum { N = 77, SAMPLES = 300 };
    static uint8_t bytes[SAMPLES][N];
    static float floats[SAMPLES][N];
    uint32_t sum[N] = {0}, square[N] = {0};
    struct hd_rng rng = hd_rng_make(3, 1, 4, 1, 5);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < N; j++)
            floats[i][j] = bytes[i][j] =
                j == 0 ? 255 : (uint8_t)hd_rng_below(&rng, (uint32_t)(i * N + j), 256);
    double c[2], m[2][N], s[2][N];
    hd_statistics_of(floats[0], SAMPLES, N, (struct hd_statistics){&c[0], m[0], s[0]});
    for (int i = 0; i < SAMPLES; i++)
        hd_statistics_bytes_add(bytes[i], N, sum, square);
    hd_statistics_bytes(sum, square, SAMPLES, N, (struct hd_statistics){&c[1], m[1], s[1]});
    ck_assert_double_eq(c[0], c[1]);
    for (int j = 0; j < N; j++) {
        ck_assert_double_eq_tol(m[0][j], m[1][j], 1e-9);
        ck_assert_double_eq_tol(s[0][j], s[1][j], 1e-4);
    }
    ck_assert_double_eq(s[1][0], 0);
}
END_TEST

/* -- Draws ---------------------------------------------------------------------------------------
 */

START_TEST(draws_follow_the_probabilities)
{
    enum { DRAWS = 200000, N = 4 };
    const float logit[N] = {1, -1, 0.5f, -40};
    double p[N], sum = 0;
    int64_t drawn[N] = {0};
    struct hd_rng rng = hd_rng_make(11, 12, 13, 14, 15);
    for (int i = 0; i < N; i++)
        sum += p[i] = exp(logit[i]);
    for (int i = 0; i < DRAWS; i++)
        drawn[hd_categorical(logit, N, hd_rng_uniform(&rng, (uint32_t)i))]++;
    for (int i = 0; i < N; i++) {
        const double share = p[i] / sum, deviation = sqrt(share * (1 - share) / DRAWS);
        ck_assert_double_eq_tol((double)drawn[i] / DRAWS, share, 5 * deviation + 1e-6);
    }
    ck_assert_int_eq(hd_categorical(logit, N, 0), 0);
    ck_assert_int_eq(hd_categorical(logit, N, 1 - 1e-9), 3);
    ck_assert_int_eq(hd_categorical(logit, 3, 1 - 1e-12), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ppo");
    TCase *gae = tcase_create("gae");
    TCase *statistics = tcase_create("statistics"), *draws = tcase_create("draws");
    tcase_add_test(gae, advantages_of_the_spec);
    tcase_add_test(gae, advantages_by_theory);
    tcase_add_test(statistics, running_statistics_of_the_spec);
    tcase_add_test(statistics, statistics_of_bytes);
    tcase_add_test(draws, draws_follow_the_probabilities);
    suite_add_tcase(suite, gae);
    suite_add_tcase(suite, statistics);
    suite_add_tcase(suite, draws);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
