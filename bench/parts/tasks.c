/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the overhead of a task: (wall x workers - bodies) / tasks. */
#include "bench/parts/parts.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"
#include "runtime/engine/trace.h"

#include <string.h>

enum { TASKS = 100000, BUFFERS = 64, WINDOW = 256 };

static int empty_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    return HD_OK;
}

static bool group_empty(void *group)
{
    return atomic_load(&((struct hd_task_group *)group)->pending) <= 0;
}

/* Submits in windows, as a run does: never more than a few hundred tasks ahead. */
static int run_tasks(struct hd_session *session, struct hd_buffer **buffers, int n_buffers,
                     int64_t tasks)
{
    struct hd_task_group groups[2] = {0};
    for (int64_t i = 0; i < tasks; i++) {
        struct hd_task_group *group = &groups[i / WINDOW % 2];
        if (i % WINDOW == 0)
            HD_TRY(hd_session_wait(session, group_empty, group));
        const struct hd_access access = {buffers[i % n_buffers], 0, 0, HD_UPDATE};
        const struct hd_task task = {.verb = "empty",
                                     .name = "empty",
                                     .body = empty_body,
                                     .accesses = &access,
                                     .n_accesses = 1,
                                     .group = group};
        HD_TRY(hd_submit_task(session, &task));
    }
    return hd_session_drain(session);
}

static int measure_in(struct hd_session *session, int n_buffers, int workers)
{
    struct hd_buffer *buffers[BUFFERS];
    int64_t busy_before, busy, tasks;
    for (int i = 0; i < n_buffers; i++)
        HD_TRY(hd_buffer_create(session, 1, 1, &buffers[i]));
    HD_TRY(run_tasks(session, buffers, n_buffers, TASKS / 10));
    hd_trace_get_totals(hd_session_get_trace(session), &busy_before, &tasks);
    int64_t begin = hd_clock_get_ns();
    HD_TRY(run_tasks(session, buffers, n_buffers, TASKS));
    int64_t wall = hd_clock_get_ns() - begin;
    hd_trace_get_totals(hd_session_get_trace(session), &busy, &tasks);
    hd_part_report(NULL, (double)(wall * workers - (busy - busy_before)) * 1e-3 / TASKS, "us");
    for (int i = 0; i < n_buffers; i++)
        hd_buffer_destroy(buffers[i]);
    return HD_OK;
}

static int measure(int argc, char **argv)
{
    int workers = (int)hd_part_parse_number(argc, argv, 1, 1);
    bool chained = argc > 0 && strcmp(argv[0], "chained") == 0;
    if (argc == 0 || workers == 0 || (!chained && strcmp(argv[0], "independent") != 0))
        return HD_ERR_INPUT;
    struct hd_session *session;
    const struct hd_session_options options = {.workers = workers, .scheduler = "lws", .ranks = 1};
    HD_TRY(hd_session_create(&options, &session));
    int status = measure_in(session, chained ? 1 : BUFFERS, workers);
    hd_session_destroy(session);
    return status;
}

const struct hd_bench_part hd_part_tasks = {
    "independent|chained [WORKERS]",
    "cost of an empty task that shares nothing, or that updates one value like all others",
    measure};
