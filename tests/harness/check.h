/* SPDX-License-Identifier: Apache-2.0 */
/* libcheck with assertions that note their place only if they fail. libcheck's own write the name
 * of the file with every comparison, which takes most of the time of tests that compare arrays. */
#ifndef HD_TESTS_HARNESS_CHECK_H
#define HD_TESTS_HARNESS_CHECK_H

#include <check.h>

#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                                   \
    ((expr)                                                                                        \
         ? (void)0                                                                                 \
         : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", ##__VA_ARGS__))

/* Runs a suite and releases it; returns main's exit code. */
static inline int run_checks(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#endif
