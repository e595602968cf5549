/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates side by side: `runner bench` makes their runs in turns. One thread at a time. */
#pragma once

#include "runner/base/options.h"
#include "runner/bench/candidates.h"
#include "runner/train/base/rates.h"

#include <jansson.h>
#include <stdio.h>

struct hd_bench {
    const struct hd_options *options;
    struct hd_candidates candidates;
    json_t *lines;  /* all results (results.h), the earlier ones of the file first */
    FILE *file;     /* of options->json; NULL: none */
    json_t *common; /* members that all lines of this call have */
    /* Called after each run with its rates, options and directory, which has a trace. Returns
     * HD_OK, or an error that ends the measurement. NULL: there is nothing to look at. */
    int (*look_at)(void *arg, const char *strategy, const struct hd_rates *rates,
                   const struct hd_options *run_options, const char *dir);
    void *arg;
};

/* Makes all runs of bench->options. Returns the exit code of the program (errors are logged).
 * hd_bench_release releases what they left. */
int hd_bench_measure(struct hd_bench *bench);
void hd_bench_release(struct hd_bench *bench);

/* A run: of a candidate, in a turn, with a seed (-1: the config's), below a folder for its files.
 * That of a last turn leaves a trace. */
struct hd_bench_run {
    int candidate, turn;
    int64_t seed;
    bool is_last;
    const char *scratch;
};

/* Makes a run and adds its line to bench->lines and the file. Returns an exit code (errors are
 * logged). */
int hd_bench_make_run(struct hd_bench *bench, const struct hd_bench_run *run);

/* Stores what all lines of this call have. Errors: HD_ERR_NOMEM. */
int hd_bench_begin_call(struct hd_bench *bench);
