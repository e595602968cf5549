/* SPDX-License-Identifier: Apache-2.0 */
/* The small kernels of PPO against the numbers of spec 9.4 and naive references in double:
 * advantage estimation, the loss and its gradient, the norm of gradients, running statistics, draws
 * from logits. */
#include "kernels/categorical.h"
#include "kernels/gae.h"
#include "kernels/grad_norm.h"
#include "kernels/ppo_loss.h"
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

/* -- Loss ----------------------------------------------------------------------------------------
 */

START_TEST(loss_of_the_spec)
{
    const float out[] = {.1f, .2f, -.3f, .5f, 1, -1, 0, 1.5f, 0, 0, 0, -.2f, 2, 1, 0, 0};
    const float old[] = {0, 0, 0, .5f, -.5f, 0, .3f, -.3f, .1f, 0, 1, 2};
    const float value_old[] = {.4f, 1, .1f, .05f}, target[] = {1, 1.2f, -.5f, .3f};
    float adv[] = {1, -.5f, .25f, 2}, dout[16];
    const int32_t action[] = {0, 1, 2, 0};
    const struct hd_ppo_loss loss = {.batch = 4,
                                     .actions = 3,
                                     .clip = .2f,
                                     .value_clip = true,
                                     .value_weight = .5f,
                                     .entropy_weight = .01f,
                                     .out = out,
                                     .logit_old = old,
                                     .value_old = value_old,
                                     .advantage = adv,
                                     .target = target,
                                     .action = action};
    struct hd_ppo_sums sums;
    hd_ppo_loss(&loss, dout, &sums);
    ck_assert_double_eq_tol(sums.policy / 4, -0.83046669, 1e-6);
    ck_assert_double_eq_tol(sums.value / 4, 0.073750004, 1e-6);
    ck_assert_double_eq_tol(sums.entropy / 4, 0.96025443, 1e-6);
    ck_assert_double_eq_tol(sums.approx_kl / 4, -0.32842207, 1e-6);
    ck_assert_double_eq(sums.clipfrac / 4, 0.5);
    ck_assert_double_eq_tol((sums.policy + .5 * sums.value - .01 * sums.entropy) / 4, -0.80319422,
                            1e-6);
    const double dv[] = {-0.0625, 0.0375, 0, -0.0375};
    const double dlogit[] = {-0.1728111, 0.1077558, 0.0650553};
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(dout[i * 4 + 3] / 4, dv[i], 1e-6);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(dout[i] / 4, dlogit[i], 1e-6);
    const double normalised[] = {0.29260287, -1.1118909, -0.40964404, 1.2289321};
    hd_standardise(adv, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(adv[i], normalised[i], 1e-6);
}
END_TEST

enum { ROWS = 200, ACTIONS = 5, WIDTH = ACTIONS + 1 };

static void log_softmax(const double *logit, double *log_p)
{
    double sum = 0;
    for (int j = 0; j < ACTIONS; j++)
        sum += exp(logit[j]);
    for (int j = 0; j < ACTIONS; j++)
        log_p[j] = logit[j] - log(sum);
}

static double bound(double x, double lo, double hi)
{
    return fmin(fmax(x, lo), hi);
}

/* The loss of one row as the papers write it. */
static double naive_loss(const struct hd_ppo_loss *l, int b, const double *out)
{
    double old[ACTIONS], log_p[ACTIONS], log_old[ACTIONS], entropy = 0;
    for (int j = 0; j < ACTIONS; j++)
        old[j] = l->logit_old[b * ACTIONS + j];
    log_softmax(out, log_p);
    log_softmax(old, log_old);
    for (int j = 0; j < ACTIONS; j++)
        entropy -= exp(log_p[j]) * log_p[j];
    double ratio = exp(log_p[l->action[b]] - log_old[l->action[b]]), adv = l->advantage[b];
    double policy = -fmin(ratio * adv, bound(ratio, 1 - l->clip, 1 + l->clip) * adv);
    double v = out[ACTIONS], v_old = l->value_old[b];
    double v_clip = v_old + bound(v - v_old, -l->clip, l->clip);
    double plain = pow(v - l->target[b], 2), clipped = pow(v_clip - l->target[b], 2);
    double value = 0.5 * (l->value_clip ? fmax(plain, clipped) : plain);
    return policy + l->value_weight * value - l->entropy_weight * entropy;
}

/* The derivative by differences of the naive loss. Rows so near a kink that the differences see
 * both of its sides are left out. */
START_TEST(gradient_by_differences)
{
    struct hd_rng rng = hd_rng_make(7, 8, 9, 10, 11);
    float out[ROWS * WIDTH], old[ROWS * ACTIONS], rest[3][ROWS], dout[ROWS * WIDTH];
    int32_t action[ROWS];
    uint32_t item = 0;
    for (int i = 0; i < ROWS * WIDTH; i++)
        out[i] = (float)(2 * hd_rng_uniform(&rng, item++) - 1);
    for (int i = 0; i < ROWS * ACTIONS; i++)
        old[i] = (float)(2 * hd_rng_uniform(&rng, item++) - 1);
    for (int i = 0; i < 3 * ROWS; i++)
        rest[i / ROWS][i % ROWS] = (float)(2 * hd_rng_uniform(&rng, item++) - 1);
    for (int i = 0; i < ROWS; i++)
        action[i] = (int32_t)hd_rng_below(&rng, item++, ACTIONS);
    const struct hd_ppo_loss loss = {.batch = ROWS,
                                     .actions = ACTIONS,
                                     .clip = .2f,
                                     .value_clip = _i == 0,
                                     .value_weight = .7f,
                                     .entropy_weight = .03f,
                                     .out = out,
                                     .logit_old = old,
                                     .value_old = rest[0],
                                     .advantage = rest[1],
                                     .target = rest[2],
                                     .action = action};
    struct hd_ppo_sums sums;
    hd_ppo_loss(&loss, dout, &sums);
    double total = 0, step = 1e-6;
    int kinks = 0;
    for (int b = 0; b < ROWS; b++) {
        double row[WIDTH];
        for (int j = 0; j < WIDTH; j++)
            row[j] = out[b * WIDTH + j];
        const double here = naive_loss(&loss, b, row);
        total += here;
        for (int j = 0; j < WIDTH; j++) {
            const double x = row[j];
            row[j] = x + step;
            const double right = (naive_loss(&loss, b, row) - here) / step;
            row[j] = x - step;
            const double left = (here - naive_loss(&loss, b, row)) / step;
            row[j] = x;
            if (fabs(right - left) > 1e-3)
                kinks++;
            else
                ck_assert_double_eq_tol(dout[b * WIDTH + j], (left + right) / 2, 1e-4);
        }
    }
    ck_assert_int_lt(kinks, 5);
    ck_assert_double_eq_tol(sums.policy + loss.value_weight * sums.value -
                                loss.entropy_weight * sums.entropy,
                            total, 1e-3);
}
END_TEST

/* Where nothing moved, the ratio is 1 and all branches tie: the gradient is the plain one. */
START_TEST(gradient_where_branches_tie)
{
    const float out[] = {.3f, -.2f, .5f}, old[] = {.3f, -.2f}, v_old[] = {.5f}, adv[] = {2};
    const float target[] = {1};
    const int32_t action[] = {1};
    const struct hd_ppo_loss loss = {.batch = 1,
                                     .actions = 2,
                                     .clip = .2f,
                                     .value_clip = true,
                                     .value_weight = 1,
                                     .out = out,
                                     .logit_old = old,
                                     .value_old = v_old,
                                     .advantage = adv,
                                     .target = target,
                                     .action = action};
    struct hd_ppo_sums sums;
    float dout[3];
    hd_ppo_loss(&loss, dout, &sums);
    const double p1 = 1 / (1 + exp(.5));
    ck_assert_double_eq_tol(dout[0], 2 * (1 - p1), 1e-6);
    ck_assert_double_eq_tol(dout[1], -2 * (1 - p1), 1e-6);
    ck_assert_double_eq_tol(dout[2], -.5, 1e-6);
    ck_assert_double_eq_tol(sums.kl, 0, 1e-9);
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

/* -- Norm ----------------------------------------------------------------------------------------
 */

START_TEST(squares_of_all_elements)
{
    enum { N = 67 };
    struct hd_rng rng = hd_rng_make(6, 7, 8, 9, 10);
    float x[N + 1];
    double expected = 0;
    for (int i = 0; i <= N; i++)
        x[i] = (float)hd_rng_uniform(&rng, (uint32_t)i) - 0.5f;
    for (int n = 0; n <= N; n++) {
        ck_assert_double_eq_tol(hd_squares(x, n), expected, 1e-14);
        expected += (double)x[n] * x[n];
    }
    x[N / 2] = 1e30f;
    ck_assert_double_eq_tol(hd_squares(x, N) / 1e60, 1, 1e-6);
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
    TCase *gae = tcase_create("gae"), *loss = tcase_create("loss");
    TCase *norm = tcase_create("norm");
    TCase *statistics = tcase_create("statistics"), *draws = tcase_create("draws");
    tcase_add_test(gae, advantages_of_the_spec);
    tcase_add_test(gae, advantages_by_theory);
    tcase_add_test(loss, loss_of_the_spec);
    tcase_add_loop_test(loss, gradient_by_differences, 0, 2);
    tcase_add_test(loss, gradient_where_branches_tie);
    tcase_add_test(norm, squares_of_all_elements);
    tcase_add_test(statistics, running_statistics_of_the_spec);
    tcase_add_test(statistics, statistics_of_bytes);
    tcase_add_test(draws, draws_follow_the_probabilities);
    suite_add_tcase(suite, gae);
    suite_add_tcase(suite, loss);
    suite_add_tcase(suite, norm);
    suite_add_tcase(suite, statistics);
    suite_add_tcase(suite, draws);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
