/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of repeated runs and their bootstrap intervals, as in Agarwal et al. 2021, "Deep
 * Reinforcement Learning at the Edge of the Statistical Precipice", whose package is rliable.
 *
 * A sample holds what repeats of one thing gave: the scores of the runs on one task, or differences
 * of pairs. A statistic is a number of one or more samples. Its interval is Efron's percentile
 * bootstrap: each sample is drawn again with replacement from itself alone (strata are tasks, and
 * sides of a comparison), the statistic is computed of each draw, and the interval holds the middle
 * 95 % of what came out. The draws are those of a fixed seed, so that equal samples have equal
 * intervals. Thread safe. */
#pragma once

#include <stdint.h>

enum { HD_INTERVAL_RESAMPLES = 2000 };
#define HD_INTERVAL_CONFIDENCE 0.95

/* Finite values[n], whose order does not matter. */
struct hd_sample {
    const double *values;
    int64_t n;
};

/* A statistic of samples[n], each of at least one value. `argument` is what its caller gave; it may
 * write to scratch, which has room for all values of the samples. */
typedef double hd_statistic(const struct hd_sample *samples, int n, const void *argument,
                            double *scratch);

/* The mean of all values. No argument. */
hd_statistic hd_statistic_mean;

/* The interquartile mean of all values: the mean of what is left without the floor(n / 4) lowest
 * and as many highest (scipy.stats.trim_mean of 0.25). No argument. */
hd_statistic hd_statistic_iqm;

/* P(X > Y) + P(X = Y) / 2, averaged over tasks: the first half of the samples are those of X, one
 * for each task, and the second half those of Y (Mann and Whitney's U over the number of pairs). No
 * argument. */
hd_statistic hd_statistic_improvement;

/* The share of values greater than the double that the argument points to: a point of a performance
 * profile. */
hd_statistic hd_statistic_share_above;

/* A statistic of the samples as they are, and the bounds of its interval; NaN: not known. */
struct hd_interval {
    double value, low, high;
};

/* Computes a statistic of samples[n] with its interval. Without a value in one of the samples
 * nothing is known; with a single one in any of them no interval is. Errors (logged):
 * HD_ERR_NOMEM. */
int hd_interval_estimate(hd_statistic *statistic, const struct hd_sample *samples, int n,
                         const void *argument, struct hd_interval *interval_p);
