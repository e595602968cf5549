/* SPDX-License-Identifier: Apache-2.0 */
/* Adam: numbers of spec 9.4, a naive version in double, bits independent of how a range is cut. */
#include "kernels/adam.h"
#include "runtime/base/rng.h"
#include "tests/kernels/check_close.h"

#include <string.h>

START_TEST(two_steps_are_the_spec_s)
{
    /* The first gradient after clipping its norm to 0.5, as the spec gives it. */
    static const float first[] = {.11538453f, -.15384604f, .46153814f}, second[] = {.1f, .1f, -.1f};
    static const double after1[] = {.99900001, -1.999, 2.9990001};
    static const double after2[] = {.99800628, -1.9988439, 2.998503};
    struct hd_adam adam = hd_adam_default(1e-3);
    float p[] = {1, -2, 3}, m[3] = {0}, v[3] = {0};
    hd_adam_step(&adam, 1, 3, first, 1, 1, m, v, p);
    for (int i = 0; i < 3; i++)
        CHECK_CLOSE(p[i], after1[i], 1.0, 2e-7, "after one step");
    hd_adam_step(&adam, 2, 3, second, 1, 1, m, v, p);
    for (int i = 0; i < 3; i++)
        CHECK_CLOSE(p[i], after2[i], 1.0, 3e-7, "after two steps");
}
END_TEST

enum { N = 1003, STEPS = 20 };

static void gradient(int t, float *g)
{
    struct hd_rng rng = hd_rng_make(3, (uint64_t)t, 0, 0, 0);
    for (int i = 0; i < N; i++)
        g[i] = (float)(hd_rng_uniform(&rng, (uint32_t)i) - 0.5) * (float)(i % 7);
}

START_TEST(many_steps_are_those_of_a_naive_version)
{
    struct hd_adam adam = hd_adam_default(1e-2);
    static float p[N], m[N], v[N], g[N];
    static double rp[N], rm[N], rv[N];
    for (int t = 1; t <= STEPS; t++) {
        gradient(t, g);
        hd_adam_step(&adam, t, N, g, 1, 1, m, v, p);
        for (int i = 0; i < N; i++) {
            rm[i] = 0.9 * rm[i] + 0.1 * g[i];
            rv[i] = 0.999 * rv[i] + 0.001 * (double)g[i] * g[i];
            double mean = rm[i] / (1 - pow(0.9, t)), square = rv[i] / (1 - pow(0.999, t));
            rp[i] -= 1e-2 * mean / (sqrt(square) + 1e-8);
            CHECK_CLOSE(p[i], rp[i], 1e-2 * t, 1e-5, "parameter");
        }
    }
}
END_TEST

START_TEST(cutting_a_range_changes_no_bit)
{
    static const int cuts[] = {1, 15, 16, 17, 64, 500, 1002};
    struct hd_adam adam = hd_adam_default(1e-2);
    static float p[N], m[N], v[N], g[N], cp[N], cm[N], cv[N];
    for (int k = 0; k < (int)(sizeof cuts / sizeof *cuts); k++) {
        memset(p, 0, sizeof p), memset(m, 0, sizeof m), memset(v, 0, sizeof v);
        memset(cp, 0, sizeof cp), memset(cm, 0, sizeof cm), memset(cv, 0, sizeof cv);
        for (int t = 1; t <= 3; t++) {
            int c = cuts[k];
            gradient(t, g);
            hd_adam_step(&adam, t, N, g, 1, 1, m, v, p);
            hd_adam_step(&adam, t, c, g, 1, 1, cm, cv, cp);
            hd_adam_step(&adam, t, N - c, g + c, 1, 1, cm + c, cv + c, cp + c);
        }
        ck_assert(memcmp(p, cp, sizeof p) == 0 && memcmp(m, cm, sizeof m) == 0 &&
                  memcmp(v, cv, sizeof v) == 0);
    }
}
END_TEST

/* The formula as it stands, every division a division. */
static void plain_step(double rate, int t, float count, const float *g, float *m, float *v,
                       float *p)
{
    const float step = (float)(rate / (1 - pow(0.9, t))), root = (float)sqrt(1 - pow(0.999, t));
    for (int i = 0; i < N; i++) {
        volatile float grad = g[i] / count, part = 0.9f * m[i], square;
        m[i] = part + (float)(1 - 0.9) * grad;
        part = 0.999f * v[i];
        square = (float)(1 - 0.999) * grad;
        square = square * grad;
        v[i] = part + square;
        square = sqrtf(v[i]);
        square = square / root;
        square = m[i] / (square + 1e-8f);
        square = step * square;
        p[i] -= square;
    }
}

START_TEST(a_step_by_a_sum_is_the_formula_to_the_bit)
{
    static const float counts[] = {1, 2, 32, 96, 3, 1000};
    struct hd_adam adam = hd_adam_default(1e-2);
    static float p[N], m[N], v[N], g[N], pp[N], pm[N], pv[N];
    for (int k = 0; k < (int)(sizeof counts / sizeof *counts); k++) {
        memset(p, 0, sizeof p), memset(m, 0, sizeof m), memset(v, 0, sizeof v);
        memset(pp, 0, sizeof p), memset(pm, 0, sizeof m), memset(pv, 0, sizeof v);
        for (int t = 1; t <= 600; t++) {
            gradient(t, g);
            for (int i = 0; i < N; i++)
                g[i] *= ldexpf(1, i % 40 - 30); /* from ordinary down to squares that vanish */
            hd_adam_step(&adam, t, N, g, counts[k], 1, m, v, p);
            plain_step(1e-2, t, counts[k], g, pm, pv, pp);
        }
        ck_assert(memcmp(p, pp, sizeof p) == 0 && memcmp(m, pm, sizeof m) == 0 &&
                  memcmp(v, pv, sizeof v) == 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("adam");
    tcase_add_test(tests, two_steps_are_the_spec_s);
    tcase_add_test(tests, many_steps_are_those_of_a_naive_version);
    tcase_add_test(tests, cutting_a_range_changes_no_bit);
    tcase_add_test(tests, a_step_by_a_sum_is_the_formula_to_the_bit);
    return run_suite("adam", tests);
}
