/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks whose bodies are called again and leave their workers to others in between: background
 * tasks, those that wait for something outside, and tasks of GPUs that look at what they have done.
 * An asynchronous task holds the accesses, and each call is a task without any. Workers do not
 * pre-empt, so a call of a background task is a time slice at the lowest priority. */
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/tsan_internal.h"

static void release_accesses(struct hd_task_record *record)
{
    hd_tsan_end(record->open);
    starpu_task_end_dep_release(record->open);
}

/* -- Waiting ----------------------------------------------------------------------------------- */
/* Workers look between tasks, and when they are idle, whether what a task waits for is there. */

/* Notes for reports of hangs what the worker has noted of the task. */
static void note_wait(struct hd_task_record *record)
{
    struct hd_running *waiting = &record->waiting.running;
    *waiting = record->session->events.running[hd_session_get_lane(record->session)];
    if (record->begin_ns == 0)
        record->begin_ns = waiting->begin_ns;
    waiting->begin_ns = record->begin_ns;
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

static void call_ended(void *arg)
{
    struct hd_task_record *record = arg;
    struct hd_session *session = record->session;
    hd_tsan_acquire(record);
    atomic_fetch_add(&session->tasks.finished, 1); /* the watchdog sees that something happens */
    hd_session_resume_tasks(session);
    if (record->task.home != HD_HOST)
        record->status = hd_session_complete_gpu_task(session, record) ? HD_AGAIN : HD_OK;
    if (record->status == HD_AGAIN)
        hd_session_start_call(record);
    else if (record->status == HD_WAITS)
        suspend(record);
    else
        release_accesses(record);
}

/* A call after a wait goes first: until it has run, nobody steps. */
static int choose_priority(const struct hd_task *task)
{
    return task->background        ? HD_PRIORITY_LAST
           : task->home == HD_HOST ? HD_PRIORITY_FIRST
                                   : task->priority;
}

void hd_session_start_call(void *arg)
{
    struct hd_task_record *record = arg;
    struct hd_session *session = record->session;
    struct starpu_task *call = starpu_task_create();
    hd_tsan_acquire(record);
    hd_tsan_begin(record->open);
    call->cl_arg = record;
    call->callback_func = call_ended;
    call->callback_arg = record;
    call->name = record->task.name;
    call->priority = hd_session_clamp_priority(session, choose_priority(&record->task));
    hd_codelet_apply(session, record->codelet, record->task.home, call);
    hd_tsan_release(record);
    const int error = starpu_task_submit(call);
    if (!error)
        return;
    hd_session_fail(session, HD_ERR_SYSTEM, "StarPU refuses a call of task %s (%d)",
                    record->task.name, error);
    release_accesses(record);
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
        hd_session_start_call(record);
    }
}
