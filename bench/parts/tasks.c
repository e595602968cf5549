/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the overhead of a task: (wall x workers - bodies) / tasks. In chains with tasks of a GPU
 * one task is on its way at a time: wall / tasks. */
#include "bench/parts/parts.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"
#include "runtime/engine/trace.h"

#include <string.h>

enum { TASKS = 100000, BUFFERS = 64, WINDOW = 256 };

static const struct kind {
    const char *name;
    int buffers;
    bool even_on_gpu, odd_on_gpu;
} kinds[] = {{"independent", BUFFERS, false, false},
             {"chained", 1, false, false},
             {"gpu", 1, true, true},
             {"hop", 1, false, true}};

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
static int run_tasks(struct hd_session *session, const struct kind *kind,
                     struct hd_buffer **buffers, int64_t tasks)
{
    struct hd_task_group groups[2] = {0};
    for (int64_t i = 0; i < tasks; i++) {
        struct hd_task_group *group = &groups[i / WINDOW % 2];
        if (i % WINDOW == 0)
            HD_TRY(hd_session_wait(session, group_empty, group));
        const struct hd_access access = {buffers[i % kind->buffers], 0, 0, HD_UPDATE};
        const struct hd_task task = {
            .verb = "empty",
            .name = "empty",
            .body = empty_body,
            .home = (i % 2 ? kind->odd_on_gpu : kind->even_on_gpu) ? 1 : HD_HOST,
            .accesses = &access,
            .n_accesses = 1,
            .group = group};
        HD_TRY(hd_submit_task(session, &task));
    }
    return hd_session_drain(session);
}

static int measure_in(struct hd_session *session, const struct kind *kind, int workers)
{
    struct hd_buffer *buffers[BUFFERS];
    const int64_t tasks = kind->odd_on_gpu ? TASKS / 10 : TASKS;
    for (int i = 0; i < kind->buffers; i++)
        HD_TRY(hd_buffer_create(session, 1, 1, &buffers[i]));
    HD_TRY(run_tasks(session, kind, buffers, tasks / 10));
    const int64_t busy_before = hd_trace_get_totals(hd_session_get_trace(session)).busy_ns;
    int64_t begin = hd_clock_get_ns();
    HD_TRY(run_tasks(session, kind, buffers, tasks));
    int64_t wall = hd_clock_get_ns() - begin;
    const int64_t busy = hd_trace_get_totals(hd_session_get_trace(session)).busy_ns;
    int64_t spent = kind->odd_on_gpu ? wall : wall * workers - (busy - busy_before);
    hd_part_report(NULL, (double)spent * 1e-3 / (double)tasks, "us");
    for (int i = 0; i < kind->buffers; i++)
        hd_buffer_destroy(buffers[i]);
    return HD_OK;
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int measure(int argc, char **argv)
{
    int workers = (int)hd_part_parse_number(argc, argv, 1, 1);
    const struct kind *kind = argc > 0 ? find_kind(argv[0]) : NULL;
    if (!kind || workers == 0)
        return HD_ERR_INPUT;
    struct hd_session *session;
    const struct hd_session_options options = {
        .workers = workers, .scheduler = "lws", .ranks = 1, .n_devices = kind->odd_on_gpu};
    HD_TRY(hd_session_create(&options, &session));
    int status = measure_in(session, kind, workers);
    hd_session_destroy(session);
    return status;
}

const struct hd_bench_part hd_part_tasks = {"independent|chained|gpu|hop [WORKERS]",
                                            "cost of an empty task that shares nothing, or that "
                                            "updates one value like all others, on CPUs, "
                                            "on a GPU, or alternately on both",
                                            measure};
