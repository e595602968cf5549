/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing with references: by a scaled residual, NaN is infinitely far, the worst element is
 * named.
 */
#ifndef HD_TESTS_KERNELS_CHECK_CLOSE_H
#define HD_TESTS_KERNELS_CHECK_CLOSE_H

#include <check.h>
#include <math.h>
#include <stdint.h>

/* |found - wanted| / scale; NaN gives infinity. */
static inline double residual(double found, double wanted, double scale)
{
    double r = fabs(found - wanted) / scale;
    return isnan(r) ? INFINITY : r;
}

#define CHECK_CLOSE(found, wanted, scale, limit, what)                                             \
    ck_assert_msg(residual(found, wanted, scale) <= (limit),                                       \
                  "%s: found %.9g, wanted %.9g: residual %.2e of %.9g, allowed %.1e", what,        \
                  (double)(found), (double)(wanted), residual(found, wanted, scale),               \
                  (double)(scale), (double)(limit))

/* Runs a suite of one case and returns main's exit code. */
static inline int run_suite(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#endif
