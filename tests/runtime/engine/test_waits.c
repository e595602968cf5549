/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that wait for something outside: others run meanwhile, under every scheduler, on one
 * worker and on two; what is ready soon costs no task; they end by failures elsewhere, and are told
 * as what the rank waits for. */
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"
#include "runtime/engine/trace.h"
#include "tests/harness/check.h"

#include <string.h>

static struct hd_session *session;
static const char *const *schedulers;

static int count_schedulers(void)
{
    int n = 0;
    hd_scheduler_is_known("", &schedulers);
    while (schedulers[n])
        n++;
    return n;
}

static void start(const char *scheduler, int workers, int64_t watchdog_ns)
{
    const struct hd_session_options options = {.sequential = scheduler == NULL,
                                               .workers = workers,
                                               .scheduler = scheduler,
                                               .ranks = 1,
                                               .watchdog_ns = watchdog_ns,
                                               .trace_capacity = 1000};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
}

/* Waits `waits` times, each time until as many others have ended as it has waited. */
struct waiting_task {
    int waits;
    bool soon; /* ready when it is first looked at */
    atomic_int called, first_calls, finished, others, looks;
};

static bool is_ready(void *arg, double seconds)
{
    struct waiting_task *task = arg;
    (void)seconds;
    task->looks++;
    return task->soon || task->others >= task->called;
}

static int wait_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    struct waiting_task *task = (void *)args;
    ck_assert(task->called == 0 || is_ready(task, 0));
    task->first_calls += !context->again;
    hd_context_note_step(context, 3, 17);
    return task->called++ < task->waits ? hd_body_wait(context, is_ready, task) : HD_OK;
}

static int finish_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    ((struct waiting_task *)args)->finished++;
    return HD_OK;
}

static int other_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    ((struct waiting_task *)args)->others++;
    return HD_OK;
}

static int read_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    ck_assert_int_eq(((const struct waiting_task *)args)->finished, 1);
    return HD_OK;
}

static int fail_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views, (void)args;
    return hd_body_fail(context, "another task");
}

static void submit(struct hd_task task, struct hd_buffer *buffer, enum hd_mode mode)
{
    const struct hd_access access = {buffer, 0, 0, mode};
    task.verb = task.name = "test";
    task.accesses = &access;
    task.n_accesses = 1;
    ck_assert_int_eq(hd_submit_task(session, &task), HD_OK);
}

static void submit_waiting(struct waiting_task *task, struct hd_buffer *buffer, bool background)
{
    const struct hd_task waiting = {.body = wait_body,
                                    .finish = finish_body,
                                    .args = task,
                                    .background = background,
                                    .waits = !background};
    submit(waiting, buffer, HD_UPDATE);
}

TEST(others_run_meanwhile, .runs = 4 * count_schedulers())
{
    enum { WAITS = 20 };
    const bool background = _i % 4 / 2;
    struct hd_buffer *waited, *other;
    struct waiting_task task = {.waits = WAITS};
    start(schedulers[_i / 4], 1 + _i % 2, 20000000000);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &waited), HD_OK);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &other), HD_OK);
    submit_waiting(&task, waited, background);
    submit((struct hd_task){.body = read_body, .args = &task}, waited, HD_READ);
    for (int i = 0; i < WAITS; i++)
        submit((struct hd_task){.body = other_body, .args = &task}, other, HD_UPDATE);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(task.called, WAITS + 1);
    ck_assert_int_eq(task.first_calls, 1);
    hd_buffer_destroy(waited);
    hd_buffer_destroy(other);
    hd_session_destroy(session);
}

/* Also where the task may not leave its worker, and without workers. */
TEST(what_is_ready_soon_is_one_task, .runs = 3)
{
    struct hd_buffer *buffer;
    struct waiting_task task = {.waits = 1000, .soon = true};
    start(_i == 0 ? NULL : "lws", 1, 0);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffer), HD_OK);
    submit((struct hd_task){.body = wait_body, .args = &task, .waits = _i == 1}, buffer, HD_UPDATE);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(task.called, 1001);
    ck_assert_int_eq(hd_trace_get_timings(hd_session_get_trace(session))->count, 1);
    hd_buffer_destroy(buffer);
    hd_session_destroy(session);
}

/* Nobody calls the body again, and the wait is no progress. */
TEST(a_failure_ends_the_wait, .runs = 4)
{
    const bool background = _i % 2, hangs = _i / 2;
    struct hd_buffer *waited, *other;
    struct waiting_task task = {.waits = 1};
    start("lws", 1, hangs ? 300000000 : 0);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &waited), HD_OK);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &other), HD_OK);
    submit_waiting(&task, waited, background);
    if (!hangs)
        submit((struct hd_task){.body = fail_body}, other, HD_UPDATE);
    ck_assert_int_eq(hd_session_drain(session), hangs ? HD_ERR_WATCHDOG : HD_ERR_TASK);
    ck_assert(strstr(hd_session_get_message(session),
                     hangs ? "runs test of iteration 0" : "another task"));
    ck_assert(!hangs || strstr(hd_session_get_message(session), ", at env 3, step 17"));
    ck_assert_int_eq(task.finished, 0);
    hd_buffer_destroy(waited);
    hd_buffer_destroy(other);
    hd_session_destroy(session);
}
