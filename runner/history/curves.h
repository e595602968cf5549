/* SPDX-License-Identifier: Apache-2.0 */
/* A run's logged numbers as tables: from its TensorBoard events, a table per component (evaluator,
 * collector, learner), a row per time that it was logged. One thread at a time. */
#pragma once

#include <stdint.h>
#include <stdio.h>

enum {
    HD_CURVES_TABLES = 16,
    HD_CURVES_COLUMNS = 64,
    HD_CURVES_NAME = 64,
    HD_CURVES_ITER = 0, /* what the first columns of a row are: updates, */
    HD_CURVES_ENV_STEP, /* environment steps, */
    HD_CURVES_WALL,     /* seconds since 1970; */
    HD_CURVES_FIRST     /* and then those that have names */
};

struct hd_table {
    char name[HD_CURVES_NAME];
    int n_columns;
    char columns[HD_CURVES_COLUMNS][HD_CURVES_NAME];
    int64_t n_rows, capacity;
    double (*rows)[HD_CURVES_FIRST + HD_CURVES_COLUMNS]; /* NaN: not logged */
};

struct hd_curves {
    int n_tables;
    struct hd_table tables[HD_CURVES_TABLES];
};

/* Reads log/serial of a run directory; without events there are no tables. Where a later part of
 * the run goes back to an earlier update, what it replaces is left out. hd_curves_release releases
 * them. Errors (logged): those of hd_tensorboard_read, HD_ERR_NOMEM. */
int hd_curves_read(const char *dir, struct hd_curves *curves_p);
void hd_curves_release(struct hd_curves *curves);

/* The mean returns of the evaluations that were logged, NaN where there are none, and after how
 * many updates they were. */
struct hd_evaluations {
    double last, best;
    int64_t last_update, best_update;
};

/* Returns the last evaluation and the best one. */
struct hd_evaluations hd_curves_find_evaluations(const struct hd_curves *curves);

/* Returns the table of a component, or NULL. */
const struct hd_table *hd_curves_find_table(const struct hd_curves *curves, const char *name);

/* Returns the mean return of the training episodes that were logged in the last tenth of the env
 * steps; NaN: none were. */
double hd_curves_find_training_return(const struct hd_curves *curves);

/* Writes all tables as CSV, a line for each number that was logged and a line of titles before
 * them: component, update, env_step (empty: not known), seconds, name, value. */
void hd_curves_write_csv(const struct hd_curves *curves, FILE *file);

/* Returns the index of a column in rows, or -1, which is no error. */
int hd_table_find_column(const struct hd_table *table, const char *name);

/* Keeps at most `max_rows` >= 3 rows: the first, the last, and those between that keep the shape of
 * `column` over the updates (largest triangle three buckets: Steinarsson 2013, section 4.2). */
void hd_table_downsample(struct hd_table *table, int column, int64_t max_rows);
