/* SPDX-License-Identifier: Apache-2.0 */
/* Turns submitted tasks into StarPU's, which all have the same codelet. */
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
    if (!session->record_cache)
        session->record_cache = atomic_exchange(&session->free_records, NULL);
    struct hd_task_record *record = session->record_cache;
    if (!record)
        return hd_alloc(1, sizeof *record);
    session->record_cache = record->next;
    return record;
}

static void recycle_record(struct hd_task_record *record)
{
    struct hd_session *session = record->session;
    record->next = atomic_load(&session->free_records);
    while (!atomic_compare_exchange_weak(&session->free_records, &record->next, record))
        ;
}

void hd_session_free_task_records(struct hd_session *session)
{
    struct hd_task_record *record;
    while ((record = session->record_cache ? session->record_cache
                                           : atomic_exchange(&session->free_records, NULL))) {
        session->record_cache = record->next;
        hd_free(record);
    }
}

/* -- Executing --------------------------------------------------------------------------------- */

static void run_task(void *buffers[], void *arg)
{
    (void)buffers;
    struct hd_task_record *record = arg;
    hd_tsan_acquire(record);
    hd_tsan_begin(starpu_task_get_current());
    hd_session_execute(record->session, hd_session_get_lane(record->session), &record->task, 0);
    hd_tsan_end(starpu_task_get_current());
    hd_tsan_release(record);
}

static void launch_task(void *buffers[], void *arg)
{
    (void)buffers;
    struct hd_task_record *record = arg;
    hd_session_bind_gpu_worker(record->session, record->task.home);
    hd_session_launch_gpu_task(record->session, record, hd_session_get_local_stream());
}

static void task_ended(void *arg)
{
    struct hd_task_record *record = arg;
    hd_tsan_acquire(record);
    struct hd_session *session = record->session;
    struct hd_task_group *group = record->task.group;
    if (record->task.home != HD_HOST)
        hd_session_complete_gpu_task(session, record);
    hd_free(record->task.owned);
    recycle_record(record);
    hd_session_end_task(session, group);
}

/* Handles stand for memory that StarPU does not own, so it need not bring them to where a task
 * runs. Told so, it creates no event each time a handle is next used on the other side. It takes
 * one entry for each handle of a task; the second codelet is for tasks with more. */
#ifdef STARPU_SPECIFIC_NODE_NONE
enum { HANDLES_MAX = 4096 };
static int no_nodes[HANDLES_MAX] = {[0 ... HANDLES_MAX - 1] = STARPU_SPECIFIC_NODE_NONE};
#define WITHOUT_NODES .specific_nodes = 1, .dyn_nodes = no_nodes
#else
enum { HANDLES_MAX = 0 };
#define WITHOUT_NODES .specific_nodes = 0
#endif
#define CODELETS(...)                                                                              \
    {                                                                                              \
        {.nbuffers = STARPU_VARIABLE_NBUFFERS, WITHOUT_NODES, __VA_ARGS__},                        \
        {                                                                                          \
            .nbuffers = STARPU_VARIABLE_NBUFFERS, __VA_ARGS__                                      \
        }                                                                                          \
    }

static struct starpu_codelet cpu_codelets[] = CODELETS(.cpu_funcs = {run_task}, .name = "heddle");

/* Its tasks have ended when the work on the worker's stream has. */
static struct starpu_codelet gpu_codelets[] =
    CODELETS(.where = STARPU_CUDA, .cuda_funcs = {launch_task}, .cuda_flags = {STARPU_CUDA_ASYNC},
             .name = "heddle gpu");

/* Its tasks hold their accesses without occupying a worker. StarPU does not let them do without
 * nodes. */
static struct starpu_codelet open_codelet = {
    .where = STARPU_NOWHERE, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "heddle asynchronous"};

static struct starpu_codelet *choose_codelet(struct starpu_codelet codelets[2],
                                             const struct starpu_task *starpu)
{
    return &codelets[starpu->nbuffers > HANDLES_MAX];
}

/* -- Submitting -------------------------------------------------------------------------------- */

static void count_start(struct hd_session *session, struct hd_task_group *group)
{
    atomic_fetch_add(&session->pending, 1);
    if (group)
        atomic_fetch_add(&group->pending, 1);
}

void hd_session_end_task(struct hd_session *session, struct hd_task_group *group)
{
    if (group)
        atomic_fetch_sub(&group->pending, 1);
    atomic_fetch_add(&session->finished, 1);
    atomic_fetch_sub(&session->pending, 1);
}

int hd_starpu_submit(struct hd_session *session, struct starpu_task *starpu,
                     struct hd_task_group *group)
{
    count_start(session, group);
    int error = starpu_task_submit(starpu);
    if (!error)
        return HD_OK;
    hd_session_end_task(session, group);
    return hd_fail(HD_ERR_SYSTEM, "StarPU refuses task %s: %s", starpu->name, strerror(-error));
}

void hd_starpu_discard(struct starpu_task *starpu)
{
    starpu->destroy = 0;
    starpu_task_destroy(starpu);
}

/* The handles are set before, because StarPU allocates for them at the first call about the task's
 * dependences. */
void hd_starpu_leave_open(struct starpu_task *starpu, void (*granted)(void *arg), void *arg)
{
    starpu->cl = &open_codelet;
    starpu->prologue_callback_pop_func = granted;
    starpu->prologue_callback_pop_arg = arg;
    starpu->prologue_callback_pop_arg_free = 0;
    starpu_task_end_dep_add(starpu, 1);
}

/* The sequential executor waits here: its next task needs this one's results. */
static void await(struct hd_session *session, const struct hd_task_record *record)
{
    int status = hd_stream_wait(session->device_streams[record->task.home - 1]);
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
        hd_session_execute(session, 0, &copy, 0);
    } else {
        struct hd_task_record record = {.session = session, .task = *task};
        hd_session_launch_gpu_task(session, &record, session->device_streams[task->home - 1]);
        await(session, &record);
        hd_session_complete_gpu_task(session, &record);
    }
    hd_free(task->owned);
    hd_session_end_task(session, task->group);
    return HD_OK;
}

int hd_submit_task(struct hd_session *session, const struct hd_task *task)
{
    hd_last_event_set(&session->submitted, task->name, task->context.iteration, hd_clock_get_ns());
    if (session->options.sequential)
        return submit_sequential(session, task);
    struct hd_task_record *record = take_record(session);
    if (!record)
        return HD_ERR_NOMEM;
    record->session = session;
    record->task = *task;
    struct starpu_task *starpu = starpu_task_create();
    if (task->home != HD_HOST) {
        starpu->execute_on_a_specific_worker = 1;
        starpu->workerid = (unsigned)session->device_workers[task->home - 1];
    }
    starpu->cl_arg = record;
    starpu->callback_func = task_ended;
    starpu->callback_arg = record;
    starpu->name = task->name;
    starpu->priority = hd_session_clamp_priority(session, task->priority);
    starpu_data_handle_t token = task->logs         ? session->log_token
                                 : task->collective ? session->token
                                                    : NULL;
    int status = hd_starpu_set_handles(starpu, task->name, task->accesses, task->n_accesses, token);
    if (status != HD_OK) {
        hd_starpu_discard(starpu);
        recycle_record(record);
        return status;
    }
    starpu->cl = choose_codelet(task->home == HD_HOST ? cpu_codelets : gpu_codelets, starpu);
    if (task->background) {
        record->open = starpu;
        hd_starpu_leave_open(starpu, hd_session_start_time_slices, record);
    }
    hd_tsan_release(record);
    return hd_starpu_submit(session, starpu, task->group);
}
