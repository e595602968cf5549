/* SPDX-License-Identifier: Apache-2.0 */
/* Submission keeps its promises: accesses to a buffer happen in program order (read after write,
 * write after read, write after write, by buckets), the first error ends a run, a signal is one,
 * background tasks do not hold a group up, tasks that log keep their order. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"
#include "runtime/engine/trace.h"
#include "tests/harness/check.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static struct hd_session *session;
static atomic_int interrupted;
static const char *const schedulers[] = {"lws", "eager", "prio", "modular-prio", "dmdas", NULL};

static void start(int i)
{
    const struct hd_session_options options = {.sequential = schedulers[i / 2] == NULL,
                                               .workers = 1 + 2 * (i % 2),
                                               .scheduler = schedulers[i / 2],
                                               .ranks = 1,
                                               .watchdog_ns = 5000000000,
                                               .interrupted = &interrupted};
    interrupted = 0;
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
}

enum { KINDS = 12 };

static void spin(int64_t ns)
{
    int64_t end = hd_clock_get_ns() + ns;
    while (hd_clock_get_ns() < end)
        ;
}

static int submit(int (*body)(struct hd_context *, const struct hd_view *, const void *),
                  const void *args, const struct hd_access *accesses, int n,
                  struct hd_task_group *group)
{
    const struct hd_task task = {.verb = "test",
                                 .name = "test",
                                 .body = body,
                                 .args = args,
                                 .accesses = accesses,
                                 .n_accesses = n,
                                 .group = group};
    return hd_submit_task(session, &task);
}

/* -- The process's name -------------------------------------------------------------------------
 */

TEST(the_process_keeps_its_name, .runs = KINDS)
{
    char before[16], while_running[16];
    prctl(PR_GET_NAME, before);
    start(_i);
    prctl(PR_GET_NAME, while_running);
    hd_session_destroy(session);
    ck_assert_str_eq(while_running, before);
}

/* -- Hazards ----------------------------------------------------------------------------------- */

/* A cell that a writer partials torn for a while, and counts those who saw it so. */
static struct cell {
    _Atomic int64_t low, high;
} cells[4];
static atomic_int torn, wrong;

struct step {
    int cell;
    int64_t expected; /* value before */
};

static int write_cell(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct step *step = args;
    struct cell *cell = &cells[step->cell];
    torn += cell->low != cell->high;
    wrong += cell->low != step->expected;
    cell->low++;
    spin(2000);
    cell->high++;
    return HD_OK;
}

static int read_cell(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct step *step = args;
    const struct cell *cell = &cells[step->cell];
    wrong += cell->low != step->expected;
    spin(1000);
    torn += cell->low != cell->high;
    return HD_OK;
}

/* One writer, three readers, over and over, on buckets of two buffers. */
TEST(accesses_happen_in_program_order, .runs = KINDS)
{
    enum { ROUNDS = 200, READERS = 3 };
    static struct step steps[ROUNDS * 4 * (1 + READERS)];
    struct hd_buffer *buffers[2];
    int n = 0;
    memset(cells, 0, sizeof cells);
    torn = wrong = 0;
    start(_i);
    for (int b = 0; b < 2; b++)
        ck_assert_int_eq(hd_buffer_create(session, 2, 1, &buffers[b]), HD_OK);
    for (int64_t round = 0; round < ROUNDS; round++)
        for (int c = 0; c < 4; c++) {
            struct hd_access access = {buffers[c / 2], c % 2, 0, HD_UPDATE};
            steps[n] = (struct step){c, round};
            ck_assert_int_eq(submit(write_cell, &steps[n++], &access, 1, NULL), HD_OK);
            access.mode = HD_READ;
            for (int r = 0; r < READERS; r++) {
                steps[n] = (struct step){c, round + 1};
                ck_assert_int_eq(submit(read_cell, &steps[n++], &access, 1, NULL), HD_OK);
            }
        }
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(torn, 0);
    ck_assert_int_eq(wrong, 0);
    for (int c = 0; c < 4; c++)
        ck_assert_int_eq(cells[c].high, ROUNDS);
    for (int b = 0; b < 2; b++)
        hd_buffer_destroy(buffers[b]);
    hd_session_destroy(session);
}

static atomic_int whole_seen;

static int read_all_cells(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const int64_t *expected = args;
    bool all = true;
    for (int c = 0; c < 2; c++)
        all &= cells[c].low == *expected && cells[c].high == *expected;
    whole_seen += all;
    return HD_OK;
}

TEST(a_whole_access_waits_for_all_parts, .runs = KINDS)
{
    enum { ROUNDS = 100 };
    static struct step steps[2 * ROUNDS];
    static int64_t expected[ROUNDS];
    struct hd_buffer *buffer;
    memset(cells, 0, sizeof cells);
    torn = wrong = whole_seen = 0;
    start(_i);
    ck_assert_int_eq(hd_buffer_create(session, 2, 1, &buffer), HD_OK);
    for (int64_t round = 0; round < ROUNDS; round++) {
        for (int c = 0; c < 2; c++) {
            const struct hd_access bucket = {buffer, c, 0, HD_UPDATE};
            steps[2 * round + c] = (struct step){c, round};
            submit(write_cell, &steps[2 * round + c], &bucket, 1, NULL);
        }
        const struct hd_access whole = {buffer, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_READ};
        expected[round] = round + 1;
        submit(read_all_cells, &expected[round], &whole, 1, NULL);
    }
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(whole_seen, ROUNDS);
    hd_buffer_destroy(buffer);
    hd_session_destroy(session);
}

/* More handles than StarPU has room for in a task, and more than a table of ours has entries. */
TEST(a_task_may_touch_many_buffers, .runs = KINDS)
{
    enum { MANY = 40, WIDE = 5000, TASKS = MANY + 2 };
    static struct step steps[TASKS];
    struct hd_buffer *buffers[MANY];
    struct hd_access accesses[MANY];
    memset(cells, 0, sizeof cells);
    torn = wrong = 0;
    start(_i);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(hd_buffer_create(session, 1 + i % 3, 1, &buffers[i]), HD_OK);
        accesses[i] = (struct hd_access){buffers[i], HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    }
    for (int i = 0; i < MANY; i++) {
        steps[i] = (struct step){0, i};
        submit(write_cell, &steps[i], accesses, MANY, NULL);
    }
    struct hd_buffer *wide;
    ck_assert_int_eq(hd_buffer_create(session, 1, WIDE, &wide), HD_OK);
    accesses[1] = (struct hd_access){wide, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    for (int i = MANY; i < TASKS; i++) {
        steps[i] = (struct step){0, i};
        submit(write_cell, &steps[i], accesses, 2, NULL);
    }
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(wrong, 0);
    ck_assert_int_eq(cells[0].low, TASKS);
    hd_buffer_destroy(wide);
    for (int i = 0; i < MANY; i++)
        hd_buffer_destroy(buffers[i]);
    hd_session_destroy(session);
}

/* -- Errors ------------------------------------------------------------------------------------ */

static atomic_int ran;

static int count_run(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    ran++;
    return HD_OK;
}

static int fail_task(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views, (void)args;
    return hd_body_fail(context, "number %d", 7);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

TEST(the_first_error_ends_the_run, .runs = KINDS)
{
    struct hd_buffer *buffer;
    start(_i);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffer), HD_OK);
    const struct hd_access access = {buffer, 0, 0, HD_UPDATE};
    ran = 0;
    for (int i = 0; i < 10; i++)
        submit(count_run, NULL, &access, 1, NULL);
    submit(fail_task, NULL, &access, 1, NULL);
    submit(fail_task, NULL, &access, 1, NULL);
    for (int i = 0; i < 1000; i++)
        submit(count_run, NULL, &access, 1, NULL);
    ck_assert_int_eq(hd_session_wait(session, never, NULL), HD_ERR_TASK);
    ck_assert_int_eq(hd_session_drain(session), HD_ERR_TASK);
    ck_assert_int_eq(ran, 10);
    ck_assert(strstr(hd_session_get_message(session), "number 7"));
    hd_buffer_destroy(buffer);
    hd_session_destroy(session);
}

TEST(a_signal_ends_a_wait, .runs = KINDS)
{
    start(_i);
    if (schedulers[_i / 2]) {
        interrupted = SIGINT;
        int64_t begin = hd_clock_get_ns();
        ck_assert_int_eq(hd_session_wait(session, never, NULL), HD_ERR_INTERRUPTED);
        ck_assert_int_eq(hd_session_get_cause(session), HD_ERR_INTERRUPTED);
        ck_assert_int_lt(hd_clock_get_ns() - begin, 5000000000); /* usually some milliseconds */
    }
    hd_session_destroy(session);
}

TEST(the_watchdog_ends_a_wait_in_which_nothing_happens)
{
    const struct hd_session_options options = {
        .workers = 1, .scheduler = "lws", .ranks = 1, .watchdog_ns = 200000000};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    ck_assert_int_eq(hd_session_wait(session, never, NULL), HD_ERR_WATCHDOG);
    hd_session_destroy(session);
}

/* -- Groups, logs, time ------------------------------------------------------------------------ */

static bool empty(void *group)
{
    return atomic_load(&((struct hd_task_group *)group)->pending) == 0;
}

static int slow(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views, (void)args;
    spin(3000000);
    return HD_OK;
}

TEST(a_group_counts_its_own_tasks, .runs = KINDS)
{
    struct hd_task_group group = {0};
    start(_i);
    for (int i = 0; i < 5; i++)
        submit(slow, NULL, NULL, 0, &group);
    ck_assert_int_eq(hd_session_wait(session, empty, &group), HD_OK);
    ck_assert_int_eq(atomic_load(&group.pending), 0);
    const struct hd_trace_totals totals = hd_trace_get_totals(hd_session_get_trace(session));
    ck_assert_int_eq(totals.tasks, 5);
    ck_assert_int_ge(totals.busy_ns, 5 * 3000000);
    hd_session_destroy(session);
}

static int logged[100];
static atomic_int n_logged, logging;

static int log_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    wrong += logging++ != 0;
    logged[n_logged++] = *(const int *)args;
    sched_yield();
    logging--;
    return HD_OK;
}

TEST(tasks_that_log_keep_their_order, .runs = KINDS)
{
    static int numbers[100];
    n_logged = logging = wrong = 0;
    start(_i);
    for (int i = 0; i < 100; i++) {
        numbers[i] = i;
        const struct hd_task task = {
            .verb = "log", .name = "log", .body = log_body, .args = &numbers[i], .logs = true};
        ck_assert_int_eq(hd_submit_task(session, &task), HD_OK);
    }
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    ck_assert_int_eq(n_logged, 100);
    ck_assert_int_eq(wrong, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(logged[i], i);
    hd_session_destroy(session);
}

TEST(idle_workers_leave_the_cores_alone)
{
    const struct hd_session_options options = {.workers = 2, .scheduler = "lws", .ranks = 1};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    const struct timespec settle = {0, 100000000}, measure = {0, 500000000};
    nanosleep(&settle, NULL);
    int64_t cpu = get_cpu_ns(), wall = hd_clock_get_ns();
    nanosleep(&measure, NULL); /* the submitter is away: one worker idles */
    double share = (double)(get_cpu_ns() - cpu) / (double)(hd_clock_get_ns() - wall);
    printf("an idle worker uses %.0f %% of a core\n", 100 * share);
    ck_assert_double_lt(share, 0.5);
    hd_session_destroy(session);
}
