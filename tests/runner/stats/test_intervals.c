/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics on cases small enough to be counted by hand, and what holds for every interval.
 * tests/interop/test_intervals.py compares with rliable. */
#include "runner/stats/intervals.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <math.h>

static struct hd_interval estimate(hd_statistic *statistic, const struct hd_sample *samples, int n,
                                   const void *argument)
{
    struct hd_interval interval;
    ck_assert_int_eq(hd_interval_estimate(statistic, samples, n, argument, &interval), HD_OK);
    return interval;
}

TEST(statistics_are_those_of_their_definitions)
{
    const double a[] = {7, 1, 100, 3, 5, -50, 2, 4}, b[] = {4, 4, 9};
    const struct hd_sample eight = {a, 8}, both[] = {{a, 8}, {b, 3}};
    const struct hd_sample sides[] = {{b, 3}, {a, 8}};
    ck_assert_double_eq(estimate(hd_statistic_mean, &eight, 1, NULL).value, 9);
    /* without -50, 1 and 7, 100 */
    ck_assert_double_eq(estimate(hd_statistic_iqm, &eight, 1, NULL).value, (2 + 3 + 4 + 5) / 4.0);
    /* of eleven, floor(11 / 4) are cut at each end: -50, 1 and 9, 100 */
    ck_assert_double_eq(estimate(hd_statistic_iqm, both, 2, NULL).value,
                        (2 + 3 + 4 + 4 + 4 + 5 + 7) / 7.0);
    /* 4 is above -50, 1, 2, 3 and equals 4, twice; 9 is above all but 100 */
    ck_assert_double_eq(estimate(hd_statistic_improvement, sides, 2, NULL).value,
                        (4.5 + 4.5 + 7) / 24);
    ck_assert_double_eq(estimate(hd_statistic_share_above, &eight, 1, &(double){4}).value, 3 / 8.0);
}

TEST(three_values_have_no_quarter_to_cut)
{
    const double values[] = {1, 2, 30};
    const struct hd_sample sample = {values, 3};
    ck_assert_double_eq(estimate(hd_statistic_iqm, &sample, 1, NULL).value, 11);
}

TEST(improvement_is_averaged_over_tasks)
{
    const double low[] = {1, 2}, high[] = {5, 6}, same[] = {3, 3, 3};
    /* X: high, same; Y: low, same */
    const struct hd_sample samples[] = {{high, 2}, {same, 3}, {low, 2}, {same, 3}};
    ck_assert_double_eq(estimate(hd_statistic_improvement, samples, 4, NULL).value, (1 + 0.5) / 2);
}

/* The means of draws of {0, 1} are 0, 1/2 and 1 with probabilities 1/4, 1/2, 1/4. */
TEST(two_values_bound_their_interval)
{
    const double values[] = {0, 1};
    const struct hd_sample sample = {values, 2};
    const struct hd_interval interval = estimate(hd_statistic_mean, &sample, 1, NULL);
    ck_assert_double_eq(interval.value, 0.5);
    ck_assert_double_eq(interval.low, 0);
    ck_assert_double_eq(interval.high, 1);
}

/* The mean of many is normal: its 95 % interval has 1.96 standard errors to each side. The bounds
 * are quantiles of 2,000 draws; a quantile at share p has the standard error sqrt(p (1 - p) / 2000)
 * / density, here 0.06 standard errors of the mean, and 4 of these are allowed. */
TEST(many_values_have_the_interval_of_the_normal_distribution)
{
    enum { N = 400 };
    double values[N];
    for (int i = 0; i < N; i++)
        values[i] = i;
    const struct hd_sample sample = {values, N};
    const double error = sqrt((N * (double)N - 1) / 12 / N);
    const struct hd_interval interval = estimate(hd_statistic_mean, &sample, 1, NULL);
    ck_assert_double_eq(interval.value, (N - 1) / 2.0);
    ck_assert_double_eq_tol((interval.value - interval.low) / error, 1.96, 0.24);
    ck_assert_double_eq_tol((interval.high - interval.value) / error, 1.96, 0.24);
}

/* A sample is drawn from itself: the strata {0, 0} and {1, 1} have no other mean than 1/2. */
TEST(strata_stay_apart)
{
    const double zeros[] = {0, 0}, ones[] = {1, 1};
    const struct hd_sample samples[] = {{zeros, 2}, {ones, 2}};
    const struct hd_interval interval = estimate(hd_statistic_mean, samples, 2, NULL);
    ck_assert_double_eq(interval.low, 0.5);
    ck_assert_double_eq(interval.high, 0.5);
}

/* Samples are drawn apart: equal ones that were drawn alike would never differ. */
TEST(samples_are_drawn_independently)
{
    const double values[] = {0, 1, 2, 3};
    const struct hd_sample samples[] = {{values, 4}, {values, 4}};
    const struct hd_interval interval = estimate(hd_statistic_improvement, samples, 2, NULL);
    ck_assert_double_eq(interval.value, 0.5);
    ck_assert_double_lt(interval.low, 0.3);
    ck_assert_double_gt(interval.high, 0.7);
}

TEST(one_value_has_no_interval_and_none_has_no_statistic)
{
    const double values[] = {3, 4};
    const struct hd_sample one = {values, 1}, sides[] = {{values, 2}, {values, 1}};
    const struct hd_sample none[] = {{values, 2}, {NULL, 0}};
    const struct hd_interval single = estimate(hd_statistic_mean, &one, 1, NULL),
                             mixed = estimate(hd_statistic_improvement, sides, 2, NULL),
                             empty = estimate(hd_statistic_improvement, none, 2, NULL);
    ck_assert_double_eq(single.value, 3);
    ck_assert_double_nan(single.low);
    ck_assert_double_nan(single.high);
    ck_assert_double_eq(mixed.value, 0.75);
    ck_assert_double_nan(mixed.low);
    ck_assert_double_nan(empty.value);
}

TEST(equal_samples_have_equal_intervals)
{
    const double values[] = {4, 8, 15, 16, 23, 42};
    const struct hd_sample sample = {values, 6};
    const struct hd_interval first = estimate(hd_statistic_iqm, &sample, 1, NULL),
                             again = estimate(hd_statistic_iqm, &sample, 1, NULL);
    ck_assert_double_eq(first.low, again.low);
    ck_assert_double_eq(first.high, again.high);
    ck_assert_double_lt(first.low, first.value);
    ck_assert_double_gt(first.high, first.value);
}
