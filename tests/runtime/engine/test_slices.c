/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that want to be called again: others at once, background tasks in slices that let other
 * work pass, under every scheduler, on one worker and on two; they end by success, error and
 * signal. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"
#include "runtime/engine/trace.h"
#include "tests/harness/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct hd_session *session;
static atomic_int interrupted;
static const char *const *schedulers;
static int n_schedulers;

static int count_schedulers(void)
{
    hd_scheduler_is_known("", &schedulers);
    for (n_schedulers = 0; schedulers[n_schedulers];)
        n_schedulers++;
    return n_schedulers;
}

/* Every scheduler and the sequential executor, with one and two workers. */
static int count_kinds(void)
{
    return 2 * (count_schedulers() + 1);
}

static void start(const char *scheduler, int workers)
{
    const struct hd_session_options options = {.sequential = scheduler == NULL,
                                               .workers = workers,
                                               .scheduler = scheduler,
                                               .ranks = 1,
                                               .watchdog_ns = 20000000000,
                                               .trace_capacity = 10000,
                                               .interrupted = &interrupted};
    interrupted = 0;
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
}

static void start_kind(int i)
{
    start(i / 2 < n_schedulers ? schedulers[i / 2] : NULL, 1 + i % 2);
}

static void spin(int64_t ns)
{
    int64_t end = hd_clock_get_ns() + ns;
    while (hd_clock_get_ns() < end)
        ;
}

static atomic_int steps, early;

/* A body of `calls` calls of `ns` each; `calls` 0: without end; and of more, but not for ever,
 * until so many steps have passed it. */
struct long_task {
    int calls, fails_at, signals_at, steps_needed;
    int64_t ns;
    atomic_int called, first_calls, finished;
};

static int run_long(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    struct long_task *task = (void *)args;
    spin(task->ns);
    task->first_calls += !context->again;
    int called = ++task->called;
    if (called == task->signals_at)
        interrupted = SIGINT;
    if (called == task->fails_at)
        return hd_body_fail(context, "call %d", called);
    if (called < task->calls || task->calls == 0)
        return HD_AGAIN;
    return steps < task->steps_needed && called < 2000 ? HD_AGAIN : HD_OK;
}

static int finish_long(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    struct long_task *task = (void *)args;
    task->finished += task->called >= task->calls && steps >= task->steps_needed;
    return HD_OK;
}

static void submit(struct long_task *task, struct hd_buffer *buffer, bool background)
{
    const struct hd_access access = {buffer, 0, 0, HD_UPDATE};
    const struct hd_task submitted = {.verb = "long",
                                      .name = "long",
                                      .body = run_long,
                                      .finish = finish_long,
                                      .args = task,
                                      .accesses = &access,
                                      .n_accesses = 1,
                                      .background = background};
    ck_assert_int_eq(hd_submit_task(session, &submitted), HD_OK);
}

/* -- Letting others pass ----------------------------------------------------------------------- */

static int step_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    spin(200000);
    steps++;
    return HD_OK;
}

static int read_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct long_task *task = args;
    early += task->finished != 1;
    return HD_OK;
}

static void submit_one(int (*body)(struct hd_context *, const struct hd_view *, const void *),
                       const void *args, struct hd_buffer *buffer, enum hd_mode mode,
                       struct hd_task_group *group)
{
    const struct hd_access access = {buffer, 0, 0, mode};
    const struct hd_task task = {.verb = "test",
                                 .name = "test",
                                 .body = body,
                                 .args = args,
                                 .accesses = &access,
                                 .n_accesses = 1,
                                 .group = group};
    ck_assert_int_eq(hd_submit_task(session, &task), HD_OK);
}

static bool empty(void *group)
{
    return atomic_load(&((struct hd_task_group *)group)->pending) == 0;
}

/* A chain of short steps, submitted two ahead, beside a background task that goes on until most
 * have passed it; who reads what the background task made waits for it. */
TEST(steps_pass_a_long_side_task, .runs = count_kinds())
{
    enum { STEPS = 100 };
    struct hd_buffer *chain, *result;
    struct hd_task_group groups[2] = {0}, reader = {0};
    struct long_task task = {.calls = 20, .ns = 1000000};
    steps = early = 0;
    start_kind(_i);
    task.steps_needed = _i / 2 < n_schedulers ? STEPS - 20 : 0;
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &chain), HD_OK);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &result), HD_OK);
    submit(&task, result, true);
    for (int i = 0; i < STEPS; i++) {
        ck_assert_int_eq(hd_session_wait(session, empty, &groups[i % 2]), HD_OK);
        submit_one(step_body, NULL, chain, HD_UPDATE, &groups[i % 2]);
    }
    submit_one(read_body, &task, result, HD_READ, &reader);
    ck_assert_int_eq(hd_session_wait(session, empty, &reader), HD_OK);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(steps, STEPS);
    ck_assert_int_eq(early, 0);
    ck_assert_int_eq(task.finished, 1); /* with the steps that it needed */
    ck_assert_int_eq(task.first_calls, 1);
    hd_buffer_destroy(chain);
    hd_buffer_destroy(result);
    hd_session_destroy(session);
}

static const char *const prioritised[] = {"lws", "prio", "modular-prio"};

/* As many background tasks as may be: no step waits for more than a slice on each worker, with
 * schedulers that know priorities. */
TEST(steps_pass_many_background_tasks, .runs = 2 * COUNT(prioritised))
{
    enum { STEPS = 20, TASKS = 40, SLICE_MS = 5 };
    struct hd_buffer *chain, *results[TASKS];
    struct hd_task_group groups[2] = {0};
    struct long_task tasks[TASKS];
    steps = 0;
    start(prioritised[_i / 2], 1 + _i % 2);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &chain), HD_OK);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct long_task){.calls = 10, .ns = 1000000, .steps_needed = STEPS};
        ck_assert_int_eq(hd_buffer_create(session, 1, 1, &results[i]), HD_OK);
        submit(&tasks[i], results[i], true);
    }
    for (int i = 0; i < STEPS; i++) {
        ck_assert_int_eq(hd_session_wait(session, empty, &groups[i % 2]), HD_OK);
        submit_one(step_body, NULL, chain, HD_UPDATE, &groups[i % 2]);
    }
    ck_assert_int_eq(hd_session_wait(session, empty, &groups[0]), HD_OK);
    ck_assert_int_eq(hd_session_wait(session, empty, &groups[1]), HD_OK);
    int called = 0;
    for (int i = 0; i < TASKS; i++)
        called += tasks[i].called;
    /* Waiting tasks would take a turn each before a step: TASKS slices of SLICE_MS calls. */
    ck_assert_int_le(called, STEPS * 4 * SLICE_MS);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    for (int i = 0; i < TASKS; i++) {
        ck_assert_int_eq(tasks[i].finished, 1);
        ck_assert_int_eq(tasks[i].first_calls, 1);
        hd_buffer_destroy(results[i]);
    }
    hd_buffer_destroy(chain);
    hd_session_destroy(session);
}

static atomic_int waits_told;

static void count_wait(void *arg)
{
    ck_assert_ptr_eq(arg, &waits_told);
    waits_told++;
}

/* Whoever waits hears of it some times a second, also in a body of its own that is called again. */
TEST(waits_are_told, .runs = 3)
{
    const struct hd_session_options options = {.sequential = _i == 0,
                                               .workers = _i == 2 ? 2 : 1,
                                               .scheduler = "lws",
                                               .ranks = 1,
                                               .waiting = count_wait,
                                               .waiting_arg = &waits_told};
    struct hd_buffer *buffer;
    struct long_task task = {.calls = 400, .ns = 1000000};
    waits_told = 0;
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffer), HD_OK);
    submit(&task, buffer, false);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_ge(waits_told, 2);
    ck_assert_int_le(waits_told, 100); /* 4 on a machine that does nothing else */
    hd_buffer_destroy(buffer);
    hd_session_destroy(session);
}

/* Schedulers with priorities run all steps first, even on one worker. */
TEST(priorities_put_slices_last, .runs = COUNT(prioritised))
{
    enum { STEPS = 50 };
    struct hd_buffer *chain, *result;
    struct hd_task_group groups[2] = {0};
    struct long_task task = {.calls = 60, .ns = 1000000};
    start(prioritised[_i], 1);
    steps = 0;
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &chain), HD_OK);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &result), HD_OK);
    submit(&task, result, true);
    for (int i = 0; i < STEPS; i++) {
        ck_assert_int_eq(hd_session_wait(session, empty, &groups[i % 2]), HD_OK);
        submit_one(step_body, NULL, chain, HD_UPDATE, &groups[i % 2]);
    }
    ck_assert_int_le(task.called, 10); /* a slice or two, had a worker been idle in between */
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(task.finished, 1);
    hd_buffer_destroy(chain);
    hd_buffer_destroy(result);
    hd_session_destroy(session);
}

TEST(slices_are_short_and_seen)
{
    struct hd_buffer *result;
    struct long_task task = {.calls = 40, .ns = 1000000};
    start("lws", 1);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &result), HD_OK);
    submit(&task, result, true);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    const struct hd_timing *timing = hd_trace_get_timings(hd_session_get_trace(session));
    ck_assert_str_eq(timing->verb, "long");
    ck_assert_int_ge(timing->count, 5); /* 8 of 5 ms; others when this machine is busy */
    ck_assert_int_ge(timing->busy_ns, (timing->count - 1) * 5000000);
    ck_assert_int_ge(timing->busy_ns, 40000000);
    hd_buffer_destroy(result);
    hd_session_destroy(session);
}

/* -- Others, and ends -------------------------------------------------------------------------- */

TEST(others_are_called_again_at_once, .runs = count_kinds())
{
    struct hd_buffer *buffer;
    struct long_task task = {.calls = 1000};
    start_kind(_i);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffer), HD_OK);
    submit(&task, buffer, false);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(task.called, 1000);
    ck_assert_int_eq(task.first_calls, 1);
    ck_assert_int_eq(task.finished, 1);
    const struct hd_timing *timing = hd_trace_get_timings(hd_session_get_trace(session));
    ck_assert_int_eq(timing->count, 1);
    hd_buffer_destroy(buffer);
    hd_session_destroy(session);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

TEST(an_error_in_the_middle_ends_the_run, .runs = count_kinds())
{
    for (int background = 0; background < 2; background++) {
        struct hd_buffer *buffer;
        struct long_task task = {.fails_at = 12, .ns = 1000000};
        start_kind(_i);
        ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffer), HD_OK);
        submit(&task, buffer, background);
        ck_assert_int_eq(hd_session_wait(session, never, NULL), HD_ERR_TASK);
        ck_assert_int_eq(hd_session_drain(session), HD_ERR_TASK);
        ck_assert_int_eq(task.called, 12);
        ck_assert_int_eq(task.finished, 0);
        ck_assert(strstr(hd_session_get_message(session), "call 12"));
        hd_buffer_destroy(buffer);
        hd_session_destroy(session);
    }
}

TEST(a_signal_in_the_middle_ends_the_run, .runs = count_kinds())
{
    for (int background = 0; background < 2; background++) {
        struct hd_buffer *buffer;
        struct long_task task = {.signals_at = 8, .ns = 1000000}, next = {.calls = 1};
        start_kind(_i);
        ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffer), HD_OK);
        submit(&task, buffer, background);
        submit(&next, buffer, false);
        ck_assert_int_eq(hd_session_wait(session, never, NULL), HD_ERR_INTERRUPTED);
        ck_assert_int_eq(hd_session_drain(session), HD_ERR_INTERRUPTED);
        ck_assert_int_eq(task.called, 8);
        ck_assert_int_eq(next.called, 0); /* nobody sees what was given up */
        hd_buffer_destroy(buffer);
        hd_session_destroy(session);
    }
}
