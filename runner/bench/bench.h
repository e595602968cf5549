/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies side by side: what `runner bench` measured, and how it reports that. One thread at a
 * time. */
#ifndef HD_RUNNER_BENCH_BENCH_H
#define HD_RUNNER_BENCH_BENCH_H

#include "runner/base/options.h"
#include "runner/train/base/rates.h"

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
    /* Called after each run with its options and directory, which has a trace. Returns HD_OK, or an
     * error that ends the measurement. NULL: there is nothing to look at. */
    int (*look_at)(struct hd_bench *bench, int strategy, const struct hd_options *run_options,
                   const char *dir);
    void *arg;
};

/* Makes all runs of bench->options. Returns the exit code of the program (errors are logged).
 * hd_bench_release releases what they left. */
int hd_bench_measure(struct hd_bench *bench);
void hd_bench_release(struct hd_bench *bench);

/* Prints all strategies as one table. */
void hd_bench_print(const struct hd_bench *bench, FILE *file);

/* Appends one line of JSON for each strategy. Errors: HD_ERR_SYSTEM, HD_ERR_NOMEM (logged). */
int hd_bench_save(const struct hd_bench *bench, const char *path);

/* Returns HD_ERR_DIVERGED (logged) when runs that must end in the same parameters did not. */
int hd_bench_compare(const struct hd_bench *bench);

struct hd_range {
    double median, min, max;
};

#endif
