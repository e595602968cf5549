/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks on CPUs whose bodies are called again and leave their workers to others in between:
 * background tasks, and those that wait for something outside. An asynchronous task holds the
 * accesses, and each call is a task without any. */
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/tsan_internal.h"

void hd_session_release_accesses(struct hd_task_record *record)
{
    hd_tsan_end(record->open);
    starpu_task_end_dep_release(record->open);
}

/* -- Waiting ----------------------------------------------------------------------------------- */
/* Workers look between tasks, and when they are idle, whether what a task waits for is there. */

/* Notes for reports of hangs what the worker has noted of the task. */
static void note_wait(struct hd_task_record *record)
{
    const struct hd_session *session = record->session;
    const struct hd_running *last = &session->events.running[hd_session_get_lane(session)];
    struct hd_running *waiting = &record->waiting.running;
    if (record->begin_ns == 0)
        record->begin_ns = last->begin_ns;
    waiting->iteration = (int_fast64_t)last->iteration;
    waiting->shard = (int_fast64_t)last->shard;
    waiting->begin_ns = record->begin_ns;
    waiting->progress.env = (int_fast64_t)last->progress.env;
    waiting->progress.step = (int_fast64_t)last->progress.step;
    waiting->name = record->task.name;
}

static void suspend(struct hd_task_record *record)
{
    struct hd_waits *waits = &record->session->tasks.waits;
    note_wait(record);
    hd_tsan_release(record);
    pthread_mutex_lock(&waits->lock);
    record->waiting.record = record;
    record->waiting.next = waits->first;
    waits->first = &record->waiting;
    atomic_fetch_add(&waits->n, 1);
    pthread_mutex_unlock(&waits->lock);
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* A worker queues what has become ready before it takes its next task. */
static void call(struct hd_task_record *record, int64_t time_slice_ns)
{
    struct hd_session *session = record->session;
    hd_tsan_acquire(record);
    record->status =
        hd_session_execute(session, hd_session_get_lane(session), &record->task, time_slice_ns);
    hd_tsan_release(record);
    hd_session_resume_tasks(session);
}

static void call_ended(void *arg)
{
    struct hd_task_record *record = arg;
    hd_tsan_acquire(record);
    atomic_fetch_add(&record->session->tasks.finished,
                     1); /* the watchdog sees that something happens */
    if (record->status == HD_AGAIN)
        hd_session_start_time_slices(record);
    else if (record->status == HD_WAITS)
        suspend(record);
    else
        hd_session_release_accesses(record);
}

/* -- Background tasks -------------------------------------------------------------------------- */
/* Workers do not pre-empt, so background tasks of seconds are called in time slices: tasks without
 * accesses at the lowest priority. An asynchronous task holds the accesses meanwhile. Of all that
 * wait for a slice one at most is queued: others follow as workers take it, so that a scheduler
 * without priorities delays a task by one slice at most. */

enum { TIME_SLICE_NS = 5000000 };

static void queue_time_slice(struct hd_session *session);

/* Appends a record to those that wait, and returns whether a slice must be queued. */
static bool append_waiting(struct hd_task_record *record)
{
    struct hd_time_slices *slices = &record->session->tasks.time_slices;
    pthread_mutex_lock(&slices->lock);
    record->next = NULL;
    *slices->end = record;
    slices->end = &record->next;
    const bool queue = !slices->queued;
    slices->queued = true;
    pthread_mutex_unlock(&slices->lock);
    return queue;
}

/* Takes the first record that waits, and stores whether others do, for which a slice must be
 * queued. */
static struct hd_task_record *take_waiting(struct hd_session *session, bool *more_p)
{
    struct hd_time_slices *slices = &session->tasks.time_slices;
    pthread_mutex_lock(&slices->lock);
    struct hd_task_record *record = slices->first;
    slices->first = record->next;
    if (!slices->first)
        slices->end = &slices->first;
    slices->queued = *more_p = slices->first != NULL;
    pthread_mutex_unlock(&slices->lock);
    return record;
}

static void run_time_slice(void *buffers[], void *arg)
{
    (void)buffers;
    struct hd_session *session = arg;
    bool more;
    struct hd_task_record *record = take_waiting(session, &more);
    if (more)
        queue_time_slice(session);
    starpu_task_get_current()->callback_arg = record;
    call(record, TIME_SLICE_NS);
}

static struct starpu_perfmodel time_slice_model = {.type = STARPU_HISTORY_BASED,
                                                   .symbol = "time_slice"};

static struct starpu_codelet time_slice_codelets[] = {
    {.cpu_funcs = {run_time_slice}, .name = "time_slice"},
    {.cpu_funcs = {run_time_slice}, .name = "time_slice", .model = &time_slice_model}};

static void queue_time_slice(struct hd_session *session)
{
    struct starpu_task *time_slice = starpu_task_create();
    time_slice->cl = &time_slice_codelets[session->starpu.models];
    time_slice->cl_arg = session;
    time_slice->callback_func = call_ended; /* run_time_slice sets its argument */
    time_slice->name = "time slice";
    time_slice->priority = hd_session_clamp_priority(session, HD_PRIORITY_LAST);
    const int error = starpu_task_submit(time_slice);
    if (!error)
        return;
    hd_session_fail(session, HD_ERR_SYSTEM, "StarPU refuses a time slice (%d)", error);
    for (bool more = true; more;)
        hd_session_release_accesses(take_waiting(session, &more));
}

void hd_session_start_time_slices(void *arg)
{
    struct hd_task_record *record = arg;
    struct hd_session *session = record->session;
    hd_tsan_acquire(record);
    hd_tsan_begin(record->open);
    hd_tsan_release(record);
    if (append_waiting(record))
        queue_time_slice(session);
}

/* -- Other tasks that wait --------------------------------------------------------------------- */

static void run_call(void *buffers[], void *arg)
{
    (void)buffers;
    call(arg, 0);
}

static struct starpu_perfmodel call_model = {.type = STARPU_HISTORY_BASED, .symbol = "call"};

static struct starpu_codelet call_codelets[] = {
    {.cpu_funcs = {run_call}, .name = "call"},
    {.cpu_funcs = {run_call}, .name = "call", .model = &call_model}};

/* The call goes first: while it waits for a worker, nobody steps. */
void hd_session_start_call(void *arg)
{
    struct hd_task_record *record = arg;
    struct hd_session *session = record->session;
    struct starpu_task *starpu = starpu_task_create();
    hd_tsan_acquire(record);
    hd_tsan_begin(record->open);
    starpu->cl = &call_codelets[session->starpu.models];
    starpu->cl_arg = record;
    starpu->callback_func = call_ended;
    starpu->callback_arg = record;
    starpu->name = record->task.name;
    starpu->priority = hd_session_clamp_priority(session, HD_PRIORITY_FIRST);
    hd_tsan_release(record);
    const int error = starpu_task_submit(starpu);
    if (!error)
        return;
    hd_session_fail(session, HD_ERR_SYSTEM, "StarPU refuses a call of task %s (%d)",
                    record->task.name, error);
    hd_session_release_accesses(record);
}

static bool is_ready(const struct hd_session *session, const struct hd_task_record *record)
{
    const struct hd_context *context = &record->task.context;
    return hd_session_get_status(session) != HD_OK || context->ready(context->ready_arg, 0);
}

/* Takes the tasks that are ready; none while another thread looks. */
static struct hd_task_record *take_ready(struct hd_session *session)
{
    struct hd_waits *waits = &session->tasks.waits;
    struct hd_task_record *ready = NULL;
    if (pthread_mutex_trylock(&waits->lock) != 0)
        return NULL;
    for (struct hd_waiting **at = &waits->first; *at;) {
        struct hd_task_record *record = (*at)->record;
        if (!is_ready(session, record)) {
            at = &(*at)->next;
            continue;
        }
        *at = record->waiting.next;
        record->next = ready;
        ready = record;
        atomic_fetch_sub(&waits->n, 1);
    }
    pthread_mutex_unlock(&waits->lock);
    return ready;
}

void hd_session_resume_tasks(struct hd_session *session)
{
    if (atomic_load_explicit(&session->tasks.waits.n, memory_order_relaxed) == 0)
        return;
    for (struct hd_task_record *record = take_ready(session), *next; record; record = next) {
        next = record->next;
        if (record->task.background)
            hd_session_start_time_slices(record);
        else
            hd_session_start_call(record);
    }
}
