/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies side by side: what `runner bench` measured, and how it tells. */
#ifndef HD_GRAPH_RUNNER_BENCH_BENCH_H
#define HD_GRAPH_RUNNER_BENCH_BENCH_H

#include "graph/runner/options.h"
#include "graph/runner/train/rates.h"

#include <stdio.h>

enum { HD_BENCH_STRATEGIES = 16 };

struct hd_bench_strategy {
    const char *name;
    int lag;      /* the largest in its graph; 0: its results are those of the serial program */
    int64_t unit; /* updates of an iteration: whole ones are measured */
    struct hd_rates *runs; /* [n_runs] */
    int n_runs;
};

struct hd_bench {
    const struct hd_options *options;
    char *names; /* the list of strategies, cut */
    struct hd_bench_strategy strategies[HD_BENCH_STRATEGIES];
    int n_strategies;
};

/* Prints one table. */
void hd_bench_print(const struct hd_bench *bench, FILE *file);

/* Appends one line of JSON for each strategy. Errors: HD_ERR_SYSTEM, HD_ERR_NOMEM (logged). */
int hd_bench_save(const struct hd_bench *bench, const char *path);

/* HD_ERR_DIVERGED (logged) when runs that must end in the same parameters did not. */
int hd_bench_compare(const struct hd_bench *bench);

/* Median, smallest and largest of a number of each run. */
struct hd_range {
    double median, min, max;
};
struct hd_range hd_bench_get_range(const struct hd_bench_strategy *strategy,
                                   double (*number)(const struct hd_rates *rates));

/* Numbers of a run. */
double hd_rates_get_updates_per_s(const struct hd_rates *rates);
double hd_rates_get_env_steps_per_s(const struct hd_rates *rates);
double hd_rates_get_gpu_busy(
    const struct hd_rates *rates); /* share of the GPUs' time with work; GPUs > 0 */
double hd_rates_get_busy(const struct hd_rates *rates); /* share of the workers' time in bodies */
double
hd_rates_get_exposed(const struct hd_rates *rates); /* share of time that only communication took */
double hd_rates_get_idle(const struct hd_rates *rates); /* what is left of the workers' time */

/* Share of time in which at least one body of a verb ran: the median over a strategy's runs. */
double hd_bench_get_verb_share(const struct hd_bench_strategy *strategy, const char *verb);

#endif
