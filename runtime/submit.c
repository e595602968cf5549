/* SPDX-License-Identifier: Apache-2.0 */
/* The one generic codelet: it turns a submitted task into a call of its body, and is the only place
 * that stamps times, sets scratch and latches errors. */
#include "runtime/submit.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm.h"
#include "runtime/session_internal.h"

#include <stdlib.h>
#include <string.h>

/* A submitted task's own copy. Jobs are recycled: workers push them on free_jobs, the submitter
 * takes the whole list at once, so that the list needs no lock and has no ABA problem. */
struct hd_job {
    struct hd_job *next;
    struct hd_session *session;
    struct hd_task task;
};

static struct hd_job *take_job(struct hd_session *session)
{
    if (!session->job_cache)
        session->job_cache = atomic_exchange(&session->free_jobs, NULL);
    struct hd_job *job = session->job_cache;
    if (!job)
        return hd_alloc(1, sizeof *job);
    session->job_cache = job->next;
    return job;
}

static void give_job(struct hd_job *job)
{
    struct hd_session *session = job->session;
    job->next = atomic_load(&session->free_jobs);
    while (!atomic_compare_exchange_weak(&session->free_jobs, &job->next, job))
        ;
}

void hd_session_free_jobs(struct hd_session *session)
{
    struct hd_job *job;
    while ((job = session->job_cache ? session->job_cache
                                     : atomic_exchange(&session->free_jobs, NULL))) {
        session->job_cache = job->next;
        hd_free(job);
    }
}

/* -- Buffers ------------------------------------------------------------------------------------
 */

int hd_buffer_create(struct hd_session *session, int parts, struct hd_buffer **buffer_p)
{
    struct hd_buffer *buffer =
        hd_alloc(1, sizeof *buffer + (size_t)parts * sizeof buffer->handles[0]);
    if (!buffer)
        return HD_ERR_NOMEM;
    buffer->session = session;
    buffer->parts = parts;
    for (int i = 0; i < parts && !session->options.sequential; i++)
        starpu_void_data_register(&buffer->handles[i]);
    *buffer_p = buffer;
    return HD_OK;
}

void hd_buffer_destroy(struct hd_buffer *buffer)
{
    if (!buffer)
        return;
    for (int i = 0; i < buffer->parts && !buffer->session->options.sequential; i++) {
        hd_session_drain(buffer->session);
        starpu_data_unregister_no_coherency(buffer->handles[i]);
    }
    hd_free(buffer);
}

/* -- Executing ----------------------------------------------------------------------------------
 */

void hd_session_execute(struct hd_session *session, int worker, struct hd_task *task)
{
    if (hd_session_status(session) != HD_OK)
        return;
    char message[HD_MESSAGE_BYTES] = "";
    struct hd_context *context = &task->context;
    context->scratch = session->scratch[worker];
    context->message = message;
    context->n_views = task->n;
    if (task->logs) {
        context->logbook = session->options.logbook;
        context->timing = hd_trace_timings(session->trace);
    }
    struct hd_event event = {.name = task->name,
                             .begin_ns = hd_clock_ns(),
                             .iteration = (int32_t)context->iteration,
                             .shard = (int16_t)context->shard,
                             .part = task->n ? (int16_t)task->views[0].part : 0};
    int status = task->body(context, task->views, task->args);
    event.end_ns = hd_clock_ns();
    hd_trace_record(session->trace, worker, task->verb, &event);
    if (status != HD_OK)
        hd_session_fail(session, status, "task %s of iteration %lld failed on rank %d: %s",
                        task->name, (long long)context->iteration, session->options.rank,
                        message[0] ? message : hd_status_text(status));
}

static void run_job(void *buffers[], void *arg)
{
    (void)buffers;
    struct hd_job *job = arg;
    hd_session_execute(job->session, starpu_worker_get_id(), &job->task);
}

static void job_ended(void *arg)
{
    struct hd_job *job = arg;
    struct hd_session *session = job->session;
    struct hd_group *group = job->task.group;
    hd_free(job->task.owned);
    give_job(job);
    hd_session_ended(session, group);
}

static struct starpu_codelet codelet = {
    .cpu_funcs = {run_job}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "heddle"};

/* -- Submitting ---------------------------------------------------------------------------------
 */

struct handle_list {
    int n, capacity;
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
};

static enum starpu_data_access_mode starpu_mode(enum hd_mode mode)
{
    return mode == HD_READ ? STARPU_R : mode == HD_WRITE ? STARPU_W : STARPU_RW;
}

/* A handle may stand only once in a task: the stronger access wins. */
static void add_handle(struct handle_list *list, starpu_data_handle_t handle,
                       enum starpu_data_access_mode mode)
{
    for (int i = 0; i < list->n; i++)
        if (list->handles[i] == handle) {
            list->modes[i] |= mode;
            return;
        }
    list->handles[list->n] = handle;
    list->modes[list->n++] = mode;
}

static int count_handles(const struct hd_task *task)
{
    int n = 1;
    for (int i = 0; i < task->n_accesses; i++)
        if (task->accesses[i].buffer)
            n += task->accesses[i].part == HD_ALL_PARTS ? task->accesses[i].buffer->parts : 1;
    return n;
}

static void add_access(struct handle_list *list, const struct hd_access *access)
{
    if (!access->buffer)
        return;
    if (access->part != HD_ALL_PARTS) {
        add_handle(list, access->buffer->handles[access->part], starpu_mode(access->mode));
        return;
    }
    for (int i = 0; i < access->buffer->parts; i++)
        add_handle(list, access->buffer->handles[i], starpu_mode(access->mode));
}

static int set_handles(struct hd_session *session, struct starpu_task *starpu,
                       const struct hd_task *task)
{
    struct handle_list list = {.handles = starpu->handles, .modes = starpu->modes};
    int needed = count_handles(task);
    if (needed > STARPU_NMAXBUFS) { /* StarPU frees these with the task */
        list.handles = starpu->dyn_handles = malloc((size_t)needed * sizeof *list.handles);
        list.modes = starpu->dyn_modes = malloc((size_t)needed * sizeof *list.modes);
        if (!list.handles || !list.modes)
            return hd_fail(HD_ERR_NOMEM, "no memory for the handles of task %s", task->name);
    }
    for (int i = 0; i < task->n_accesses; i++)
        add_access(&list, &task->accesses[i]);
    if (task->logs)
        add_handle(&list, session->log_token->handles[0], STARPU_RW);
    starpu->nbuffers = list.n;
    return HD_OK;
}

static void begin(struct hd_session *session, struct hd_group *group)
{
    atomic_fetch_add(&session->everything.pending, 1);
    if (group)
        atomic_fetch_add(&group->pending, 1);
}

static int submit_starpu(struct starpu_task *starpu, const char *name)
{
    int error = starpu_task_submit(starpu);
    if (error)
        return hd_fail(HD_ERR_SYSTEM, "StarPU refuses task %s: %s", name, strerror(-error));
    return HD_OK;
}

int hd_submit(struct hd_session *session, const struct hd_task *task)
{
    if (session->options.sequential) {
        struct hd_task copy = *task;
        begin(session, task->group);
        hd_session_execute(session, 0, &copy);
        hd_free(copy.owned);
        hd_session_ended(session, task->group);
        return HD_OK;
    }
    struct hd_job *job = take_job(session);
    if (!job)
        return HD_ERR_NOMEM;
    job->session = session;
    job->task = *task;
    struct starpu_task *starpu = starpu_task_create();
    starpu->cl = &codelet;
    starpu->cl_arg = job;
    starpu->callback_func = job_ended;
    starpu->callback_arg = job;
    starpu->name = task->name;
    starpu->priority = (int)task->priority;
    HD_TRY(set_handles(session, starpu, task));
    begin(session, task->group);
    return submit_starpu(starpu, task->name);
}

/* -- The open task of a collective --------------------------------------------------------------
 */

static void post_sync(void *arg)
{
    struct hd_sync *sync = arg;
    sync->begin_ns = hd_clock_ns();
    /* After an error the task before this one may not have packed anything: others must not read.
     */
    if (hd_session_status(sync->session) == HD_OK)
        hd_comm_arrive(sync->session->options.comm, sync->sequence, sync->name);
    atomic_store(&sync->session->open, sync);
}

static void sync_ended(void *arg)
{
    struct hd_sync *sync = arg;
    struct hd_session *session = sync->session;
    struct hd_group *group = sync->group;
    hd_free(sync);
    hd_session_ended(session, group);
}

static struct starpu_codelet sync_codelet = {
    .where = STARPU_NOWHERE, .nbuffers = 1, .modes = {STARPU_RW}, .name = "heddle sync"};

int hd_submit_sync(struct hd_session *session, int64_t sequence, const struct hd_collective *c)
{
    struct hd_sync *sync = hd_alloc(1, sizeof *sync);
    if (!sync)
        return HD_ERR_NOMEM;
    struct starpu_task *starpu = starpu_task_create();
    *sync = (struct hd_sync){.session = session,
                             .task = starpu,
                             .sequence = sequence,
                             .iteration = c->iteration,
                             .name = c->name,
                             .group = c->group};
    starpu->cl = &sync_codelet;
    starpu->handles[0] = session->token->handles[0];
    starpu->name = c->name;
    starpu->priority = (int)c->priority;
    starpu->prologue_callback_pop_func = post_sync;
    starpu->prologue_callback_pop_arg = sync;
    starpu->prologue_callback_pop_arg_free = 0;
    starpu->callback_func = sync_ended;
    starpu->callback_arg = sync;
    starpu_task_end_dep_add(starpu, 1);
    begin(session, c->group);
    return submit_starpu(starpu, c->name);
}
