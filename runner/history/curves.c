/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/history/curves.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/tensorboard.h"
#include "tasks/types/output/eval_result.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct hd_curves *curves;
    int status;
};

/* Returns the index of a name in a list, which grows by it if it is new and there is space; else
 * -1. */
static int find_or_add(char (*names)[HD_CURVES_NAME], int *n, int max, const char *name)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    if (*n == max || strlen(name) >= HD_CURVES_NAME)
        return -1;
    memcpy(names[*n], name, strlen(name) + 1);
    return (*n)++;
}

static struct hd_table *find_table(struct hd_curves *curves, const char *name, size_t length)
{
    for (int i = 0; i < curves->n_tables; i++)
        if (strncmp(curves->tables[i].name, name, length) == 0 &&
            curves->tables[i].name[length] == '\0')
            return &curves->tables[i];
    if (curves->n_tables == HD_CURVES_TABLES || length >= HD_CURVES_NAME)
        return NULL;
    struct hd_table *table = &curves->tables[curves->n_tables++];
    memcpy(table->name, name, length);
    return table;
}

/* Returns the row of an update: the last one, or a new one after rows of later updates are dropped.
 */
static double *get_row(struct hd_table *table, int64_t iter, double wall_s)
{
    while (table->n_rows > 0 && table->rows[table->n_rows - 1][HD_CURVES_ITER] > (double)iter)
        table->n_rows--;
    if (table->n_rows > 0 && table->rows[table->n_rows - 1][HD_CURVES_ITER] == (double)iter)
        return table->rows[table->n_rows - 1];
    if (hd_grow((void **)&table->rows, &table->capacity, table->n_rows + 1, sizeof *table->rows))
        return NULL;
    double *row = table->rows[table->n_rows++];
    for (int i = 0; i < HD_CURVES_FIRST + HD_CURVES_COLUMNS; i++)
        row[i] = NAN;
    row[HD_CURVES_ITER] = (double)iter;
    row[HD_CURVES_WALL] = wall_s;
    return row;
}

/* Tags are <component>_iter/<name> over updates and <component>_step/<name> over env steps. */
static void take(void *arg, const char *tag, int64_t step, double wall_s, double value)
{
    enum { AXIS = sizeof "_iter" - 1 };
    struct reading *reading = arg;
    const char *slash = strchr(tag, '/');
    if (!slash || slash - tag <= AXIS)
        return;
    const bool by_iter = strncmp(slash - AXIS, "_iter", AXIS) == 0;
    if (!by_iter && strncmp(slash - AXIS, "_step", AXIS) != 0)
        return;
    struct hd_table *table = find_table(reading->curves, tag, (size_t)(slash - AXIS - tag));
    if (!table)
        return;
    if (!by_iter) {
        if (table->n_rows > 0)
            table->rows[table->n_rows - 1][HD_CURVES_ENV_STEP] = (double)step;
        return;
    }
    const int column = find_or_add(table->columns, &table->n_columns, HD_CURVES_COLUMNS, slash + 1);
    if (column < 0)
        return;
    double *row = get_row(table, step, wall_s);
    if (row)
        row[HD_CURVES_FIRST + column] = value;
    else
        reading->status = HD_ERR_NOMEM;
}

static int is_event_file(const struct dirent *entry)
{
    return strncmp(entry->d_name, "events.out.tfevents.", strlen("events.out.tfevents.")) == 0;
}

static int read_file(const char *folder, const char *name, struct reading *reading)
{
    char *path = hd_format("%s/%s", folder, name);
    if (!path)
        return HD_ERR_NOMEM;
    int status = hd_tensorboard_read(path, take, reading);
    hd_free(path);
    return status == HD_OK ? reading->status : status;
}

int hd_curves_read(const char *dir, struct hd_curves *curves_p)
{
    struct hd_curves curves = {0};
    struct reading reading = {&curves, HD_OK};
    struct dirent **entries = NULL;
    char *folder = hd_format("%s/log/serial", dir);
    int status = folder ? HD_OK : HD_ERR_NOMEM;
    /* The names begin with the time at which they were made. */
    const int n = folder ? scandir(folder, &entries, is_event_file, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        if (status == HD_OK)
            status = read_file(folder, entries[i]->d_name, &reading);
        free(entries[i]);
    }
    free(entries);
    hd_free(folder);
    if (status == HD_OK)
        *curves_p = curves;
    else
        hd_curves_release(&curves);
    return status;
}

void hd_curves_release(struct hd_curves *curves)
{
    for (int i = 0; i < curves->n_tables; i++)
        hd_free(curves->tables[i].rows);
    *curves = (struct hd_curves){0};
}

int hd_table_find_column(const struct hd_table *table, const char *name)
{
    for (int i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i], name) == 0)
            return HD_CURVES_FIRST + i;
    return -1;
}

/* -- Thinning ---------------------------------------------------------------------------------- */

static double height(const double *row, int column)
{
    return isfinite(row[column]) ? row[column] : 0;
}

/* Returns twice the area of the triangle of rows a, b and the point (x, y). */
static double area(const double *a, const double *b, int column, double x, double y)
{
    return fabs((a[HD_CURVES_ITER] - x) * (height(b, column) - height(a, column)) -
                (a[HD_CURVES_ITER] - b[HD_CURVES_ITER]) * (y - height(a, column)));
}

/* Returns the row of [lo, hi) that makes the largest triangle with `before` and the middle of
 * [hi, end). */
static int64_t pick(const struct hd_table *table, int column, const double *before, int64_t lo,
                    int64_t hi, int64_t end)
{
    double x = 0, y = 0, largest = -1;
    int64_t picked = lo;
    for (int64_t i = hi; i < end; i++) {
        x += table->rows[i][HD_CURVES_ITER] / (double)(end - hi);
        y += height(table->rows[i], column) / (double)(end - hi);
    }
    for (int64_t i = lo; i < hi; i++) {
        const double found = area(before, table->rows[i], column, x, y);
        if (found > largest) {
            largest = found;
            picked = i;
        }
    }
    return picked;
}

void hd_table_downsample(struct hd_table *table, int column, int64_t max_rows)
{
    const int64_t n = table->n_rows, buckets = max_rows - 2;
    if (n <= max_rows)
        return;
    int64_t kept = 1;
    for (int64_t b = 0; b < buckets; b++) {
        const int64_t lo = 1 + (n - 2) * b / buckets, hi = 1 + (n - 2) * (b + 1) / buckets;
        const int64_t end = b + 1 < buckets ? 1 + (n - 2) * (b + 2) / buckets : n;
        const int64_t row = pick(table, column, table->rows[kept - 1], lo, hi, end);
        memmove(table->rows[kept++], table->rows[row], sizeof *table->rows); /* kept <= lo <= row */
    }
    memmove(table->rows[kept++], table->rows[n - 1], sizeof *table->rows);
    table->n_rows = kept;
}

const struct hd_table *hd_curves_find_table(const struct hd_curves *curves, const char *name)
{
    for (int i = 0; i < curves->n_tables; i++)
        if (strcmp(curves->tables[i].name, name) == 0)
            return &curves->tables[i];
    return NULL;
}

struct hd_evaluations hd_curves_find_evaluations(const struct hd_curves *curves)
{
    const struct hd_table *table = hd_curves_find_table(curves, "evaluator");
    const int column = table ? hd_table_find_column(table, "eval_episode_return_mean") : -1;
    struct hd_evaluations found = {.last = NAN, .best = NAN};
    for (int64_t r = 0; column >= 0 && r < table->n_rows; r++) {
        const double mean = table->rows[r][column];
        if (isnan(mean))
            continue;
        found.last = mean;
        found.last_update = (int64_t)table->rows[r][HD_CURVES_ITER];
        if (hd_eval_result_is_better(mean, found.last_update, found.best, found.best_update)) {
            found.best = mean;
            found.best_update = found.last_update;
        }
    }
    return found;
}

double hd_curves_find_training_return(const struct hd_curves *curves)
{
    const struct hd_table *table = hd_curves_find_table(curves, "collector");
    const int column = table ? hd_table_find_column(table, "reward_mean") : -1;
    double sum = 0;
    int64_t n = 0;
    for (int64_t r = 0; column >= 0 && r < table->n_rows; r++) {
        const double *row = table->rows[r];
        if (row[HD_CURVES_ENV_STEP] < 0.9 * table->rows[table->n_rows - 1][HD_CURVES_ENV_STEP] ||
            !isfinite(row[column]))
            continue;
        sum += row[column];
        n++;
    }
    return n > 0 ? sum / (double)n : NAN;
}
