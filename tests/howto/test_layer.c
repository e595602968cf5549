/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/howto/layer.md: its derivatives against differences, and that a column's
 * result depends on that column alone. */
#include "tests/harness/check.h"
#include "tests/howto/howto.h"

#include <math.h>
#include <string.h>

enum { FEATURES = 7, COLUMNS = 3, LD = 5 };

static float weight[FEATURES], bias[FEATURES], x[FEATURES * LD], dy[FEATURES * LD];

static void fill(void)
{
    for (int i = 0; i < FEATURES; i++) {
        weight[i] = 1 + 0.1f * (float)i;
        bias[i] = 0.05f * (float)i;
        for (int b = 0; b < LD; b++) {
            x[i * LD + b] = sinf((float)(3 * i + b));
            dy[i * LD + b] = cosf((float)(i + 2 * b));
        }
    }
}

/* sum of dy * y, whose derivatives `backward` yields */
static double loss(void)
{
    float y[FEATURES * LD], mean[COLUMNS], inverse[COLUMNS];
    double sum = 0;
    hd_layer_norm_forward(FEATURES, COLUMNS, LD, weight, bias, x, y, mean, inverse);
    for (int i = 0; i < FEATURES; i++)
        for (int b = 0; b < COLUMNS; b++)
            sum += (double)dy[i * LD + b] * y[i * LD + b];
    return sum;
}

static double difference(float *at)
{
    const float old = *at, step = 1.0f / 256;
    *at = old + step;
    const double above = loss();
    *at = old - step;
    const double below = loss();
    *at = old;
    return (above - below) / (2 * step);
}

START_TEST(derivatives)
{
    float y[FEATURES * LD], mean[COLUMNS], inverse[COLUMNS];
    float dx[FEATURES * LD], dweight[FEATURES], dbias[FEATURES];
    fill();
    hd_layer_norm_forward(FEATURES, COLUMNS, LD, weight, bias, x, y, mean, inverse);
    hd_layer_norm_backward(FEATURES, COLUMNS, LD, weight, x, mean, inverse, dy, dx, dweight, dbias);
    for (int i = 0; i < FEATURES; i++) {
        ck_assert_double_eq_tol(dweight[i], difference(&weight[i]), 1e-3);
        ck_assert_double_eq_tol(dbias[i], difference(&bias[i]), 1e-3);
        for (int b = 0; b < COLUMNS; b++)
            ck_assert_double_eq_tol(dx[i * LD + b], difference(&x[i * LD + b]), 1e-3);
    }
}
END_TEST

START_TEST(columns_are_independent)
{
    float all[FEATURES * LD], one[FEATURES * LD], mean[COLUMNS], inverse[COLUMNS];
    fill();
    hd_layer_norm_forward(FEATURES, COLUMNS, LD, weight, bias, x, all, mean, inverse);
    for (int b = 0; b < COLUMNS; b++) {
        hd_layer_norm_forward(FEATURES, 1, LD, weight, bias, x + b, one + b, mean, inverse);
        for (int i = 0; i < FEATURES; i++)
            ck_assert_mem_eq(&one[i * LD + b], &all[i * LD + b], sizeof(float));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layer");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, derivatives);
    tcase_add_test(tests, columns_are_independent);
    suite_add_tcase(suite, tests);
    return run_checks(suite);
}
