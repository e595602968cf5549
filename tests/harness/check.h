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

#endif
