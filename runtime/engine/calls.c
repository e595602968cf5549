/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks on CPUs whose bodies are called again and leave their workers to others in between:
 * background tasks. */
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/tsan_internal.h"

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
    hd_tsan_acquire(record);
    record->again =
        hd_session_execute(session, hd_session_get_lane(session), &record->task, TIME_SLICE_NS);
    hd_tsan_release(record);
}

void hd_session_release_accesses(struct hd_task_record *record)
{
    hd_tsan_end(record->open);
    starpu_task_end_dep_release(record->open);
}

static void time_slice_ended(void *arg)
{
    struct hd_task_record *record = arg;
    hd_tsan_acquire(record);
    atomic_fetch_add(&record->session->tasks.finished,
                     1); /* the watchdog sees that something happens */
    if (record->again)
        hd_session_start_time_slices(record);
    else
        hd_session_release_accesses(record);
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
    time_slice->callback_func = time_slice_ended; /* run_time_slice sets its argument */
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
