/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing with references by a scaled residual, where NaN is infinitely far; memory that lives as
 * long as a test; running a suite. */
#ifndef HD_TESTS_KERNELS_CHECK_CLOSE_H
#define HD_TESTS_KERNELS_CHECK_CLOSE_H

#include "runtime/base/alloc.h"

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

enum { TEST_BLOCKS = 256 };
static void *test_blocks[TEST_BLOCKS];
static int n_test_blocks;

/* hd_alloc, released when the test ends. */
static inline void *test_alloc(int64_t count, size_t bytes)
{
    ck_assert_int_lt(n_test_blocks, TEST_BLOCKS);
    void *block = hd_alloc(count, bytes);
    ck_assert_ptr_nonnull(block);
    return test_blocks[n_test_blocks++] = block;
}

static inline void free_test_blocks(void)
{
    while (n_test_blocks > 0)
        hd_free(test_blocks[--n_test_blocks]);
}

/* Runs a suite of one case and returns main's exit code. */
static inline int run_suite(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    tcase_add_checked_fixture(tests, NULL, free_test_blocks);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#endif
