/* SPDX-License-Identifier: Apache-2.0 */
/* Turns submitted tasks into StarPU's. */
#include "runtime/engine/submit.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/tsan_internal.h"

#include <string.h>

static struct hd_task_record *take_record(struct hd_session *session)
{
    if (!session->tasks.record_cache)
        session->tasks.record_cache = atomic_exchange(&session->tasks.free_records, NULL);
    struct hd_task_record *record = session->tasks.record_cache;
    if (!record)
        return hd_alloc(1, sizeof *record);
    session->tasks.record_cache = record->next;
    return record;
}

static void recycle_record(struct hd_task_record *record)
{
    struct hd_session *session = record->session;
    record->next = atomic_load(&session->tasks.free_records);
    while (!atomic_compare_exchange_weak(&session->tasks.free_records, &record->next, record))
        ;
}

void hd_session_free_task_records(struct hd_session *session)
{
    struct hd_task_record *record;
    while ((record = session->tasks.record_cache
                         ? session->tasks.record_cache
                         : atomic_exchange(&session->tasks.free_records, NULL))) {
        session->tasks.record_cache = record->next;
        hd_free(record);
    }
    hd_free(session->tasks.fusion.accesses);
}

/* -- Executing --------------------------------------------------------------------------------- */

static void release_records(struct hd_task_record *record)
{
    while (record) {
        struct hd_task_record *next = record->fused;
        hd_free(record->task.owned);
        recycle_record(record);
        record = next;
    }
}

static void task_ended(void *arg)
{
    struct hd_task_record *record = arg;
    hd_tsan_acquire(record);
    struct hd_session *session = record->session;
    struct hd_task_group *group = record->task.group;
    release_records(record);
    hd_session_resume_tasks(session);
    hd_session_end_task(session, group);
}

/* StarPU calls this before it starts what depends on the task. */
static void gpu_work_ended(void *arg)
{
    struct hd_task_record *record = arg;
    hd_session_complete_gpu_task(record->session, record);
}

/* A StarPU that cannot do so knows no GPUs here. */
static void call_at_end_of_work(struct starpu_task *starpu, struct hd_task_record *record)
{
#ifdef STARPU_EPILOGUE_CALLBACK
    starpu->epilogue_callback_func = gpu_work_ended;
    starpu->epilogue_callback_arg = record;
#else
    (void)starpu, (void)record, (void)gpu_work_ended;
#endif
}

/* Its tasks hold their accesses without occupying a worker. StarPU does not let them do without
 * nodes. */
static struct starpu_codelet open_codelet = {
    .where = STARPU_NOWHERE, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "heddle asynchronous"};

/* -- Submitting -------------------------------------------------------------------------------- */

static void count_start(struct hd_session *session, struct hd_task_group *group)
{
    atomic_fetch_add(&session->tasks.pending, 1);
    if (group)
        atomic_fetch_add(&group->pending, 1);
}

void hd_session_end_task(struct hd_session *session, struct hd_task_group *group)
{
    if (group)
        atomic_fetch_sub(&group->pending, 1);
    atomic_fetch_add(&session->tasks.finished, 1);
    atomic_fetch_sub(&session->tasks.pending, 1);
}

int hd_starpu_submit(struct hd_session *session, struct starpu_task *starpu,
                     struct hd_task_group *group)
{
    HD_TRY(hd_session_flush(session));
    count_start(session, group);
    int error = starpu_task_submit(starpu);
    if (!error)
        return HD_OK;
    hd_session_end_task(session, group);
    return hd_fail(HD_ERR_SYSTEM, "StarPU refuses task %s: %s", starpu->name, strerror(-error));
}

/* The handles are set before, because StarPU allocates for them at the first call about the task's
 * dependences. */
void hd_starpu_leave_open(struct starpu_task *starpu, void (*granted)(void *arg), void *arg)
{
    starpu->cl = &open_codelet;
    starpu->where = STARPU_NOWHERE;
    starpu->prologue_callback_pop_func = granted;
    starpu->prologue_callback_pop_arg = arg;
    starpu->prologue_callback_pop_arg_free = 0;
    starpu_task_end_dep_add(starpu, 1);
}

/* The sequential executor waits here: its next task needs this one's results. */
static void await(struct hd_session *session, const struct hd_task_record *record)
{
    int status = hd_stream_wait(session->gpus[record->task.home - 1].stream);
    if (status != HD_OK)
        hd_session_fail(session, status, "task %s failed on a GPU", record->task.name);
}

static int submit_sequential(struct hd_session *session, const struct hd_task *task)
{
    if (task->home != HD_HOST)
        HD_TRY(hd_device_use(session->options.devices[task->home - 1]));
    count_start(session, task->group);
    if (task->home == HD_HOST) {
        struct hd_task copy = *task;
        copy.number = session->tasks.observed;
        hd_session_execute(session, 0, &copy);
    } else {
        struct hd_task_record record = {.session = session, .task = *task, .name = task->name};
        record.task.number = session->tasks.observed;
        do {
            hd_session_launch_gpu_task(session, &record, session->gpus[task->home - 1].stream);
            await(session, &record);
        } while (hd_session_complete_gpu_task(session, &record));
    }
    hd_free(task->owned);
    hd_session_end_task(session, task->group);
    return HD_OK;
}

/* The accesses and the record, of fused tasks the first one, stay the caller's on failure. */
static int submit_record(struct hd_session *session, struct hd_task_record *record,
                         const struct hd_access *accesses, int n_accesses,
                         starpu_data_handle_t token)
{
    const struct hd_task *task = &record->task;
    record->codelet = hd_codelet_find(session, hd_record_get_verb(record));
    if (!record->codelet)
        return HD_ERR_NOMEM;
    struct starpu_task *starpu =
        hd_starpu_make(record->name, accesses, n_accesses, token, task_ended, record);
    if (!starpu)
        return HD_ERR_NOMEM;
    starpu->cl_arg = record;
    starpu->priority = hd_session_clamp_priority(session, task->priority);
    if (task->again || (task->home == HD_HOST && (task->background || task->waits))) {
        record->open = starpu;
        hd_starpu_leave_open(starpu, hd_session_start_call, record);
    } else {
        hd_codelet_apply(session, record->codelet, task->home, starpu);
        if (task->home != HD_HOST)
            call_at_end_of_work(starpu, record);
    }
    hd_tsan_release(record);
    return hd_starpu_submit(session, starpu, task->group);
}

static struct hd_task_record *make_record(struct hd_session *session, const struct hd_task *task)
{
    struct hd_task_record *record = take_record(session);
    if (!record)
        return NULL;
    record->session = session;
    record->task = *task;
    record->task.number = session->tasks.observed;
    record->name = task->name;
    record->begin_ns = 0;
    record->fused = NULL;
    return record;
}

/* -- Fusing ------------------------------------------------------------------------------------ */

bool hd_fuse_begin(struct hd_session *session, int home, const char *name)
{
    if (session->options.sequential)
        return false;
    session->tasks.fusion.name = name;
    session->tasks.fusion.home = home;
    return session->tasks.fusion.n > 0;
}

/* Adds a task to those that are to be one. */
static int fuse(struct hd_session *session, const struct hd_task *task)
{
    struct hd_fusion *fusion = &session->tasks.fusion;
    HD_TRY(hd_grow((void **)&fusion->accesses, &fusion->accesses_capacity,
                   fusion->n_accesses + task->n_accesses, sizeof *fusion->accesses));
    struct hd_task_record *record = make_record(session, task);
    if (!record)
        return HD_ERR_NOMEM;
    for (int i = 0; i < task->n_accesses; i++)
        fusion->accesses[fusion->n_accesses++] = task->accesses[i];
    fusion->channel = task->channel ? task->channel : fusion->channel;
    if (fusion->n++ == 0)
        fusion->first = record;
    else
        fusion->last->fused = record;
    fusion->last = record;
    if (task->priority > fusion->first->task.priority)
        fusion->first->task.priority = task->priority;
    return fusion->n == HD_FUSED_MAX ? hd_session_flush(session) : HD_OK;
}

int hd_session_flush(struct hd_session *session)
{
    struct hd_fusion *fusion = &session->tasks.fusion;
    struct hd_task_record *record = fusion->first;
    if (fusion->n == 0)
        return HD_OK;
    const int n_accesses = (int)fusion->n_accesses;
    const starpu_data_handle_t token = fusion->channel ? fusion->channel->token : NULL;
    record->name = fusion->n > 1 ? fusion->name : record->task.name;
    fusion->n = 0;
    fusion->n_accesses = 0;
    fusion->channel = NULL;
    fusion->first = fusion->last = NULL;
    const int status = submit_record(session, record, fusion->accesses, n_accesses, token);
    if (status != HD_OK)
        release_records(record);
    return status;
}

int hd_fuse_end(struct hd_session *session)
{
    const int status = hd_session_flush(session);
    session->tasks.fusion.name = NULL;
    return status;
}

static int record_task(struct hd_recorder *recorder, const struct hd_task *task)
{
    HD_TRY(recorder->task(recorder, task));
    hd_free(task->owned);
    return HD_OK;
}

static int observe_task(struct hd_session *session, const struct hd_task *task)
{
    struct hd_recorder *observer = session->options.observer;
    session->tasks.observed += observer != NULL;
    return observer ? observer->task(observer, task) : HD_OK;
}

int hd_session_observe_wait(struct hd_session *session, const struct hd_task_group *group)
{
    struct hd_recorder *observer = session->options.observer;
    session->tasks.observed += observer != NULL;
    return observer ? observer->wait(observer, group) : HD_OK;
}

int hd_submit_task(struct hd_session *session, const struct hd_task *task)
{
    hd_last_event_set(&session->events.submitted, task->name, task->context.iteration,
                      hd_clock_get_ns());
    if (session->options.recorder)
        return record_task(session->options.recorder, task);
    HD_TRY(observe_task(session, task));
    if (session->options.sequential)
        return submit_sequential(session, task);
    if (session->tasks.fusion.name && task->home == session->tasks.fusion.home && !task->again &&
        task->graph_capturable)
        return fuse(session, task);
    struct hd_task_record *record = make_record(session, task);
    if (!record)
        return HD_ERR_NOMEM;
    const starpu_data_handle_t token = task->logs      ? session->tasks.log_token
                                       : task->channel ? task->channel->token
                                                       : NULL;
    const int status = submit_record(session, record, task->accesses, task->n_accesses, token);
    if (status != HD_OK)
        recycle_record(record);
    return status;
}
