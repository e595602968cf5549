/* SPDX-License-Identifier: Apache-2.0 */
/* Epsilon: the spec's numbers (2.7) and the ends of a linear decay. */
#include "kernels/exploration.h"

#include <check.h>
#include <stdlib.h>

START_TEST(test_exponential)
{
    const struct hd_epsilon pong = {false, 1, .05, 250000}, cartpole = {false, .95, .1, 10000};
    ck_assert_double_eq(hd_epsilon_at(&pong, 0), 1);
    ck_assert_double_eq_tol(hd_epsilon_at(&pong, 96), 0.99963527, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_at(&pong, 1e5), 0.68680404, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_at(&pong, 1e6), 0.06739986, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_at(&cartpole, 8), 0.94932027, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_at(&cartpole, 1e4), 0.41269752, 5e-9);
}
END_TEST

START_TEST(test_linear)
{
    const struct hd_epsilon epsilon = {true, .9, .1, 1000};
    ck_assert_double_eq_tol(hd_epsilon_at(&epsilon, 0), .9, 1e-15);
    ck_assert_double_eq_tol(hd_epsilon_at(&epsilon, 250), .7, 1e-15);
    ck_assert_double_eq(hd_epsilon_at(&epsilon, 1000), .1);
    ck_assert_double_eq(hd_epsilon_at(&epsilon, 1e9), .1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exploration");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_exponential);
    tcase_add_test(tests, test_linear);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
