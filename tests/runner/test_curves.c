/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of a run: tables out of TensorBoard events, and thinning that keeps their shape. */
#include "runner/history/curves.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/tensorboard.h"
#include "tests/harness/check.h"
#include "tests/runner/scratch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct hd_tensorboard *board;
static struct hd_curves curves;

static void setup(void)
{
    scratch_setup();
    ck_assert_int_eq(hd_path_make_parents(scratch_path("log/serial/x")), HD_OK);
    ck_assert_int_eq(hd_tensorboard_create(scratch_path("log/serial"), &board), HD_OK);
}

static void teardown(void)
{
    hd_tensorboard_destroy(board);
    board = NULL;
    hd_curves_release(&curves);
    scratch_teardown();
}

static void add(const char *tag, int64_t step, double wall_s, double value)
{
    ck_assert_int_eq(hd_tensorboard_add_scalar(board, tag, step, wall_s, value), HD_OK);
}

static void read_curves(void)
{
    hd_tensorboard_destroy(board);
    board = NULL;
    ck_assert_int_eq(hd_curves_read(scratch_dir, &curves), HD_OK);
}

FIXTURE(setup, teardown)

TEST(a_table_has_a_row_per_time_that_it_was_logged)
{
    add("evaluator_iter/mean", 0, 100, 1.5);
    add("evaluator_step/mean", 0, 100, 1.5);
    add("evaluator_iter/max", 0, 100, 4);
    add("learner_iter/loss", 50, 101, 0.25);
    add("evaluator_iter/mean", 100, 102, 2.5);
    add("evaluator_step/mean", 6400, 102, 2.5);
    read_curves();
    ck_assert_int_eq(curves.n_tables, 2);
    const struct hd_table *table = &curves.tables[0];
    ck_assert_str_eq(table->name, "evaluator");
    ck_assert_str_eq(curves.tables[1].name, "learner");
    ck_assert_int_eq(table->n_columns, 2);
    ck_assert_int_eq(table->n_rows, 2);
    const int mean = hd_table_find_column(table, "mean"), max = hd_table_find_column(table, "max");
    ck_assert_int_eq(mean, HD_CURVES_FIRST);
    ck_assert_int_eq(max, HD_CURVES_FIRST + 1);
    ck_assert_int_eq(hd_table_find_column(table, "loss"), -1);
    ck_assert_double_eq(table->rows[1][HD_CURVES_ITER], 100);
    ck_assert_double_eq(table->rows[1][HD_CURVES_ENV_STEP], 6400);
    ck_assert_double_eq(table->rows[1][HD_CURVES_WALL], 102);
    ck_assert_double_eq(table->rows[1][mean], 2.5);
    ck_assert_double_eq(table->rows[0][max], 4);
    ck_assert(isnan(table->rows[1][max]));
}

TEST(a_part_that_goes_back_replaces_what_was_lost)
{
    for (int i = 1; i <= 4; i++)
        add("learner_iter/loss", 10 * i, i, i);
    add("learner_iter/loss", 20, 9, -2);
    add("learner_iter/loss", 30, 10, -3);
    read_curves();
    const struct hd_table *table = &curves.tables[0];
    ck_assert_int_eq(table->n_rows, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(table->rows[i][HD_CURVES_ITER], 10 * (i + 1));
    ck_assert_double_eq(table->rows[0][HD_CURVES_FIRST], 1);
    ck_assert_double_eq(table->rows[1][HD_CURVES_FIRST], -2);
    ck_assert_double_eq(table->rows[2][HD_CURVES_FIRST], -3);
}

TEST(other_tags_make_no_tables)
{
    add("loss", 1, 1, 1);
    add("learner/loss", 1, 1, 1);
    add("_iter/loss", 1, 1, 1);
    read_curves();
    ck_assert_int_eq(curves.n_tables, 0);
}

TEST(columns_beyond_the_last_are_left_out)
{
    char tag[64];
    for (int i = 0; i < HD_CURVES_COLUMNS + 5; i++) {
        snprintf(tag, sizeof tag, "learner_iter/c%d", i);
        add(tag, 1, 1, i);
    }
    read_curves();
    ck_assert_int_eq(curves.tables[0].n_columns, HD_CURVES_COLUMNS);
    ck_assert_double_eq(curves.tables[0].rows[0][HD_CURVES_FIRST + HD_CURVES_COLUMNS - 1],
                        HD_CURVES_COLUMNS - 1);
}

TEST(a_run_without_events_has_no_tables)
{
    char name[256];
    snprintf(name, sizeof name, "log/serial/%s", hd_tensorboard_get_name(board));
    hd_tensorboard_destroy(board);
    board = NULL;
    ck_assert_int_eq(remove(scratch_path(name)), 0);
    ck_assert_int_eq(hd_curves_read(scratch_dir, &curves), HD_OK);
    ck_assert_int_eq(curves.n_tables, 0);
    ck_assert_int_eq(remove(scratch_path("log/serial")), 0);
    ck_assert_int_eq(hd_curves_read(scratch_dir, &curves), HD_OK);
    ck_assert_int_eq(curves.n_tables, 0);
}

TEST(a_damaged_file_is_refused)
{
    char name[256];
    snprintf(name, sizeof name, "log/serial/%s", hd_tensorboard_get_name(board));
    add("learner_iter/loss", 1, 1, 1);
    const int64_t middle = hd_tensorboard_get_length(board) - 8;
    hd_tensorboard_destroy(board);
    board = NULL;
    FILE *file = fopen(scratch_path(name), "r+");
    ck_assert_int_eq(fseek(file, (long)middle, SEEK_SET), 0);
    const int byte = fgetc(file);
    ck_assert_int_eq(fseek(file, (long)middle, SEEK_SET), 0);
    fputc(byte ^ 0x55, file);
    fclose(file);
    ck_assert_int_eq(hd_curves_read(scratch_dir, &curves), HD_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(scratch_log, name));
    ck_assert_int_eq(curves.n_tables, 0);
}

/* A table of n rows whose first column is 0 but for a peak. */
static struct hd_table *make_table(int64_t n, int64_t peak)
{
    struct hd_table *table = &curves.tables[curves.n_tables++];
    ck_assert_int_eq(hd_grow((void **)&table->rows, &table->capacity, n, sizeof *table->rows),
                     HD_OK);
    table->n_columns = 1;
    table->n_rows = n;
    for (int64_t i = 0; i < n; i++) {
        table->rows[i][HD_CURVES_ITER] = (double)i;
        table->rows[i][HD_CURVES_FIRST] = i == peak ? 7 : 0;
    }
    return table;
}

TEST(thinning_keeps_the_ends_and_the_peak)
{
    enum { ROWS = 1000, KEPT = 12, PEAK = 437 };
    struct hd_table *table = make_table(ROWS, PEAK);
    hd_table_downsample(table, HD_CURVES_FIRST, KEPT);
    ck_assert_int_eq(table->n_rows, KEPT);
    ck_assert_double_eq(table->rows[0][HD_CURVES_ITER], 0);
    ck_assert_double_eq(table->rows[KEPT - 1][HD_CURVES_ITER], ROWS - 1);
    bool peak = false;
    for (int i = 0; i < KEPT; i++) {
        peak |= table->rows[i][HD_CURVES_FIRST] == 7;
        if (i > 0)
            ck_assert_double_gt(table->rows[i][HD_CURVES_ITER], table->rows[i - 1][HD_CURVES_ITER]);
    }
    ck_assert(peak);
}

TEST(short_tables_stay_whole)
{
    struct hd_table *table = make_table(12, 5);
    hd_table_downsample(table, HD_CURVES_FIRST, 12);
    ck_assert_int_eq(table->n_rows, 12);
    ck_assert_double_eq(table->rows[5][HD_CURVES_FIRST], 7);
}

TEST(thinning_takes_what_was_not_logged_for_zero)
{
    struct hd_table *table = make_table(100, 50);
    for (int i = 0; i < 100; i++)
        if (i != 50)
            table->rows[i][HD_CURVES_FIRST] = NAN;
    hd_table_downsample(table, HD_CURVES_FIRST, 3);
    ck_assert_int_eq(table->n_rows, 3);
    ck_assert_double_eq(table->rows[1][HD_CURVES_ITER], 50);
}
