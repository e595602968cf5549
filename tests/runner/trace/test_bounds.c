/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of planted traces, whose critical paths and rates are known; and clocks that differ. */
#include "runner/trace/bounds.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/runner/trace/planted.h"

#include <string.h>

enum { ITERATIONS = 40 };

static struct hd_bounds find(struct hd_trace_file *trace, double bytes_per_s)
{
    struct hd_bounds bounds;
    ck_assert_int_eq(hd_bounds_find(trace, bytes_per_s, &bounds), HD_OK);
    hd_trace_file_release(trace);
    ck_assert_int_eq(bounds.iterations, ITERATIONS);
    ck_assert_str_eq(bounds.unit, "updates");
    ck_assert_double_eq(bounds.units, ITERATIONS);
    return bounds;
}

static double find_gain(const struct hd_bounds *bounds, const char *name)
{
    for (int i = 0; i < bounds->n_steps; i++)
        if (strcmp(bounds->steps[i].name, name) == 0)
            return bounds->steps[i].faster;
    ck_abort_msg("nothing is said of %s", name);
    return 0;
}

/* An iteration is `first`, then `second`, and, beside them, `beside`, which is what it waits for
 * without `second`. */
TEST(the_critical_path_says_what_to_improve)
{
    static const struct planted tasks[] = {
        {"beside", 1, 0, 250, 0, 0}, {"first", 0, 0, 30, 0, 0}, {"second", 0, 30, 270, 1, 0}};
    const struct hd_bounds bounds = find(planted_read(tasks, 3, 2, ITERATIONS, 300, 1, 0), 0);
    ck_assert_double_eq_tol(bounds.seconds, ITERATIONS * 300e-6, 1e-9);
    ck_assert_double_eq_tol(bounds.replayed_s, ITERATIONS * 300e-6, 1e-9);
    ck_assert_double_eq_tol(bounds.work_s, ITERATIONS * 300e-6, 1e-9);
    ck_assert_double_eq_tol(bounds.path_s, ITERATIONS * 300e-6, 1e-9);
    ck_assert_double_eq(bounds.cable_s, 0);
    ck_assert_str_eq(bounds.steps[0].name, "second");
    ck_assert_double_eq_tol(bounds.steps[0].faster, 300.0 / 250 - 1, 0.02);
    ck_assert_double_eq_tol(find_gain(&bounds, "first"), 300.0 / 270 - 1, 0.02);
    ck_assert_double_eq_tol(find_gain(&bounds, "beside"), 0, 1e-6);
}

/* Two tasks that could run side by side do not on one worker. */
TEST(work_binds_on_one_worker)
{
    static const struct planted tasks[] = {{"left", 0, 0, 100, 0, 0}, {"right", 0, 100, 300, 0, 0}};
    const struct hd_bounds bounds = find(planted_read(tasks, 2, 1, ITERATIONS, 400, 1, 0), 0);
    ck_assert_double_eq_tol(bounds.work_s, ITERATIONS * 400e-6, 1e-9);
    ck_assert_double_eq_tol(bounds.path_s, ITERATIONS * 300e-6, 1e-6);
    ck_assert_double_eq_tol(find_gain(&bounds, "right"), 3, 0.1);
}

/* Of 1100 us, a megabyte takes 1000. Clocks are half a second apart. */
TEST(the_cable_binds)
{
    static const struct planted tasks[] = {{"work", 0, 0, 100, 2, 0},
                                           {"mean", 1, 100, 1000, 1, 1000000}};
    for (int known = 0; known < 2; known++) {
        const struct hd_bounds bounds =
            find(planted_read(tasks, 2, 1, ITERATIONS, 1100, 2, 5e5), known ? 2e9 : 0);
        ck_assert_int_eq(bounds.measured, !known);
        ck_assert_double_eq_tol(bounds.bytes_per_s, known ? 2e9 : 1e9, 1e3);
        ck_assert_double_eq_tol(bounds.cable_s, ITERATIONS * (known ? 500e-6 : 1000e-6), 1e-6);
        ck_assert_double_eq_tol(bounds.work_s, ITERATIONS * 100e-6, 1e-6);
        ck_assert_str_eq(bounds.steps[0].name, "messages between hosts");
        ck_assert_double_gt(bounds.steps[0].faster, known ? 5 : 9);
    }
}

/* The clock of rank 1 is seven seconds behind. */
TEST(sync_points_align_clocks)
{
    static const struct planted tasks[] = {{"mean", 1, 0, 40, 0, 8}};
    struct hd_trace_file *trace = planted_read(tasks, 1, 1, ITERATIONS, 100, 2, -7e6);
    ck_assert_double_le(trace->clock_error_us, 40);
    ck_assert_ptr_nonnull(strstr(trace->clock, "40 sync points"));
    ck_assert_int_eq(trace->n_events, 2 * ITERATIONS);
    for (int64_t i = 0; i < trace->n_events; i += 2)
        ck_assert_double_eq_tol(trace->events[i].begin_us, trace->events[i + 1].begin_us,
                                trace->clock_error_us);
    hd_trace_file_release(trace);
}

TEST(a_short_trace_has_no_bounds)
{
    static const struct planted tasks[] = {{"work", 0, 0, 100, 0, 0}};
    struct hd_trace_file *trace = planted_read(tasks, 1, 1, 3, 100, 1, 0);
    struct hd_bounds bounds;
    ck_assert_int_eq(hd_bounds_find(trace, 0, &bounds), HD_OK);
    ck_assert_int_eq(bounds.iterations, 0);
    hd_trace_file_release(trace);
}

TEST(bounds_without_memory)
{
    static const struct planted tasks[] = {{"work", 0, 0, 100, 2, 0}, {"mean", 1, 100, 10, 1, 8}};
    struct hd_trace_file *trace = planted_read(tasks, 2, 1, 9, 110, 2, 0);
    int status = HD_ERR_NOMEM;
    for (int64_t n = 1; status != HD_OK; n++) {
        struct hd_bounds bounds;
        hd_alloc_fail_nth(n);
        status = hd_bounds_find(trace, 0, &bounds);
        hd_alloc_fail_nth(0);
        ck_assert_msg(status == HD_OK || status == HD_ERR_NOMEM, "%d at %d", status, (int)n);
        if (status == HD_OK) {
            ck_assert_int_gt(n, 10);
            ck_assert(bounds.work_s > 0);
        }
    }
    hd_trace_file_release(trace);
}
