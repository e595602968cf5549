/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/stats/intervals.h"

#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double average(const double *values, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

/* Writes all values one after another; returns how many there are. */
static int64_t pool(const struct hd_sample *samples, int n, double *values)
{
    int64_t count = 0;
    for (int s = 0; s < n; s++) {
        memcpy(values + count, samples[s].values, (size_t)samples[s].n * sizeof *values);
        count += samples[s].n;
    }
    return count;
}

/* -- Statistics -------------------------------------------------------------------------------- */

double hd_statistic_mean(const struct hd_sample *samples, int n, const void *argument,
                         double *scratch)
{
    (void)argument;
    return average(scratch, pool(samples, n, scratch));
}

double hd_statistic_iqm(const struct hd_sample *samples, int n, const void *argument,
                        double *scratch)
{
    (void)argument;
    const int64_t count = pool(samples, n, scratch), cut = count / 4;
    qsort(scratch, (size_t)count, sizeof *scratch, compare_doubles);
    return average(scratch + cut, count - 2 * cut);
}

double hd_statistic_improvement(const struct hd_sample *samples, int n, const void *argument,
                                double *scratch)
{
    (void)argument;
    (void)scratch;
    const int tasks = n / 2;
    double sum = 0;
    for (int t = 0; t < tasks; t++) {
        const struct hd_sample *x = &samples[t], *y = &samples[tasks + t];
        double wins = 0;
        for (int64_t i = 0; i < x->n; i++)
            for (int64_t k = 0; k < y->n; k++)
                wins += x->values[i] > y->values[k] ? 1 : x->values[i] == y->values[k] ? 0.5 : 0;
        sum += wins / ((double)x->n * (double)y->n);
    }
    return sum / tasks;
}

double hd_statistic_share_above(const struct hd_sample *samples, int n, const void *argument,
                                double *scratch)
{
    (void)scratch;
    const double threshold = *(const double *)argument;
    int64_t above = 0, count = 0;
    for (int s = 0; s < n; s++) {
        count += samples[s].n;
        for (int64_t i = 0; i < samples[s].n; i++)
            above += samples[s].values[i] > threshold;
    }
    return (double)above / (double)count;
}

/* -- The bootstrap ----------------------------------------------------------------------------- */

/* Draws samples[n] again into drawn[n], whose values lie one after another in `values`. */
static void resample(const struct hd_sample *samples, int n, int64_t round, struct hd_sample *drawn,
                     double *values)
{
    enum { SEED = 0, STREAM = 0x626f6f74 }; /* "boot" */
    for (int s = 0; s < n; s++) {
        const struct hd_rng rng = hd_rng_make(SEED, STREAM, s, round, 0);
        for (int64_t i = 0; i < samples[s].n; i++)
            values[i] = samples[s].values[hd_rng_draw_below(&rng, (uint32_t)i, samples[s].n)];
        drawn[s] = (struct hd_sample){values, samples[s].n};
        values += samples[s].n;
    }
}

/* Returns a quantile of values in order, linear between two of them (as numpy.percentile). */
static double find_quantile(const double *values, int64_t n, double share)
{
    const double at = share * (double)(n - 1);
    const int64_t below = (int64_t)at;
    const double above = values[below + 1 < n ? below + 1 : below];
    return values[below] + (at - (double)below) * (above - values[below]);
}

/* `memory` has room for all values twice, and for a number of each round. */
static void bootstrap(hd_statistic *statistic, const struct hd_sample *samples, int n,
                      const void *argument, int64_t count, struct hd_sample *drawn, double *memory,
                      struct hd_interval *interval)
{
    double *values = memory, *scratch = values + count, *found = scratch + count;
    for (int64_t round = 0; round < HD_INTERVAL_RESAMPLES; round++) {
        resample(samples, n, round, drawn, values);
        found[round] = statistic(drawn, n, argument, scratch);
    }
    qsort(found, HD_INTERVAL_RESAMPLES, sizeof *found, compare_doubles);
    interval->low = find_quantile(found, HD_INTERVAL_RESAMPLES, (1 - HD_INTERVAL_CONFIDENCE) / 2);
    interval->high = find_quantile(found, HD_INTERVAL_RESAMPLES, (1 + HD_INTERVAL_CONFIDENCE) / 2);
}

int hd_interval_estimate(hd_statistic *statistic, const struct hd_sample *samples, int n,
                         const void *argument, struct hd_interval *interval_p)
{
    int64_t count = 0, fewest = n > 0 ? samples[0].n : 0;
    for (int s = 0; s < n; s++) {
        count += samples[s].n;
        fewest = samples[s].n < fewest ? samples[s].n : fewest;
    }
    *interval_p = (struct hd_interval){NAN, NAN, NAN};
    if (fewest == 0)
        return HD_OK;
    struct hd_sample *drawn = hd_alloc(n, sizeof *drawn);
    double *memory = hd_alloc(2 * count + HD_INTERVAL_RESAMPLES, sizeof *memory);
    if (drawn && memory) {
        interval_p->value = statistic(samples, n, argument, memory);
        if (fewest > 1)
            bootstrap(statistic, samples, n, argument, count, drawn, memory, interval_p);
    }
    const int status = drawn && memory ? HD_OK : HD_ERR_NOMEM;
    hd_free(drawn);
    hd_free(memory);
    return status;
}
