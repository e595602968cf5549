/* SPDX-License-Identifier: Apache-2.0 */
/* From submitted tasks to StarPU's: one generic codelet, accesses as handles, and the open task of
 * sync points. */
#include "runtime/engine/submit.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/session_internal.h"
#include "runtime/engine/tsan_internal.h"

#include <stdlib.h>
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

/* -- Buffers ------------------------------------------------------------------------------------
 */

static int64_t handles_of(const struct hd_buffer *buffer)
{
    return buffer->buckets * buffer->partials;
}

int hd_buffer_create(struct hd_session *session, int buckets, int64_t partials,
                     struct hd_buffer **buffer_p)
{
    struct hd_buffer *buffer =
        hd_alloc(1, sizeof *buffer + (size_t)(buckets * partials) * sizeof buffer->handles[0]);
    if (!buffer)
        return HD_ERR_NOMEM;
    buffer->session = session;
    buffer->buckets = buckets;
    buffer->partials = partials;
    for (int64_t i = 0; i < handles_of(buffer) && !session->options.sequential; i++)
        starpu_void_data_register(&buffer->handles[i]);
    *buffer_p = buffer;
    return HD_OK;
}

void hd_buffer_destroy(struct hd_buffer *buffer)
{
    if (!buffer)
        return;
    for (int64_t i = 0; i < handles_of(buffer) && !buffer->session->options.sequential; i++) {
        hd_session_drain(buffer->session);
        starpu_data_unregister_no_coherency(buffer->handles[i]);
    }
    hd_free(buffer);
}

/* -- Executing ----------------------------------------------------------------------------------
 */

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

static struct starpu_codelet codelet = {
    .cpu_funcs = {run_task}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "heddle"};

/* Has done its work when the worker's stream has. */
static struct starpu_codelet gpu_codelet = {.where = STARPU_CUDA,
                                            .cuda_funcs = {launch_task},
                                            .cuda_flags = {STARPU_CUDA_ASYNC},
                                            .nbuffers = STARPU_VARIABLE_NBUFFERS,
                                            .name = "heddle gpu"};

/* Holds its accesses while something else than a worker is at it. */
static struct starpu_codelet open_codelet = {
    .where = STARPU_NOWHERE, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "heddle asynchronous"};

/* -- Submitting ---------------------------------------------------------------------------------
 */

struct handle_list {
    int n;
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

static int64_t count_handles(const struct hd_access *accesses, int n)
{
    int64_t needed = 1; /* one for a token */
    for (int i = 0; i < n; i++)
        if (accesses[i].buffer)
            needed += (accesses[i].bucket == HD_ALL_BUCKETS ? accesses[i].buffer->buckets : 1) *
                      (accesses[i].partial == HD_ALL_PARTIALS ? accesses[i].buffer->partials : 1);
    return needed;
}

static void add_access(struct handle_list *list, const struct hd_access *access)
{
    const struct hd_buffer *buffer = access->buffer;
    if (!buffer)
        return;
    int bucket = access->bucket == HD_ALL_BUCKETS ? 0 : access->bucket;
    int buckets = access->bucket == HD_ALL_BUCKETS ? buffer->buckets : bucket + 1;
    int64_t partial = access->partial == HD_ALL_PARTIALS ? 0 : access->partial;
    int64_t partials = access->partial == HD_ALL_PARTIALS ? buffer->partials : partial + 1;
    for (int p = bucket; p < buckets; p++)
        for (int64_t l = partial; l < partials; l++)
            add_handle(list, buffer->handles[p * buffer->partials + l], starpu_mode(access->mode));
}

static int set_handles(struct starpu_task *starpu, const char *name,
                       const struct hd_access *accesses, int n, const struct hd_buffer *token)
{
    struct handle_list list = {.handles = starpu->handles, .modes = starpu->modes};
    int64_t needed = count_handles(accesses, n);
    if (needed > STARPU_NMAXBUFS) { /* StarPU frees these with the task */
        list.handles = starpu->dyn_handles = malloc((size_t)needed * sizeof *list.handles);
        list.modes = starpu->dyn_modes = malloc((size_t)needed * sizeof *list.modes);
        if (!list.handles || !list.modes)
            return hd_fail(HD_ERR_NOMEM, "no memory for the handles of task %s", name);
    }
    for (int i = 0; i < n; i++)
        add_access(&list, &accesses[i]);
    if (token)
        add_handle(&list, token->handles[0], STARPU_RW);
    starpu->nbuffers = list.n;
    return HD_OK;
}

static void begin(struct hd_session *session, struct hd_task_group *group)
{
    atomic_fetch_add(&session->all_tasks.pending, 1);
    if (group)
        atomic_fetch_add(&group->pending, 1);
}

static int submit_starpu(struct hd_session *session, struct starpu_task *starpu,
                         struct hd_task_group *group)
{
    begin(session, group);
    int error = starpu_task_submit(starpu);
    if (!error)
        return HD_OK;
    hd_session_end_task(session, group);
    return hd_fail(HD_ERR_SYSTEM, "StarPU refuses task %s: %s", starpu->name, strerror(-error));
}

/* Of a task that StarPU has not been told of. */
static void discard(struct starpu_task *starpu)
{
    starpu->destroy = 0;
    starpu_task_destroy(starpu);
}

/* The task is not done when it has run, but when it is released. Its handles stand already: StarPU
 * makes room for them when it is first told something about the task's dependences. */
static void leave_open(struct starpu_task *starpu, void (*granted)(void *arg), void *arg)
{
    starpu->cl = &open_codelet;
    starpu->prologue_callback_pop_func = granted;
    starpu->prologue_callback_pop_arg = arg;
    starpu->prologue_callback_pop_arg_free = 0;
    starpu_task_end_dep_add(starpu, 1);
}

/* The sequential executor's: its next task needs what this one does. */
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
    begin(session, task->group);
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
    starpu->cl = task->home == HD_HOST ? &codelet : &gpu_codelet;
    if (task->home != HD_HOST) {
        starpu->execute_on_a_specific_worker = 1;
        starpu->workerid = (unsigned)session->device_workers[task->home - 1];
    }
    starpu->cl_arg = record;
    starpu->callback_func = task_ended;
    starpu->callback_arg = record;
    starpu->name = task->name;
    starpu->priority = hd_session_clamp_priority(session, task->priority);
    int status = set_handles(starpu, task->name, task->accesses, task->n_accesses,
                             task->logs ? session->log_token : NULL);
    if (status != HD_OK) {
        discard(starpu);
        recycle_record(record);
        return status;
    }
    if (task->background) {
        record->open = starpu;
        leave_open(starpu, hd_session_start_time_slices, record);
    }
    hd_tsan_release(record);
    return submit_starpu(session, starpu, task->group);
}

/* -- Sync points ----------------------------------------------------------------------------------
 */

static void post_device_collective(struct hd_session *session, int64_t sequence,
                                   const struct hd_device_collective *device_collective)
{
    char text[HD_DEVICE_COMM_MESSAGE_BYTES] = "";
    int status = hd_device_comm_post(session->options.device_comm, sequence, device_collective);
    if (status == HD_OK)
        return;
    hd_device_comm_get_error(session->options.device_comm, text, sizeof text);
    hd_session_fail(session, status, "%s: %s", device_collective->name, text);
}

static void post_sync(void *arg)
{
    struct hd_sync *sync = arg;
    hd_tsan_acquire(sync);
    struct hd_session *session = sync->session;
    sync->begin_ns = hd_clock_get_ns();
    /* After an error what stands before this point may not have run: others must not read. */
    if (hd_session_get_status(session) == HD_OK && sync->device_collective)
        post_device_collective(session, sync->sequence, sync->device_collective);
    else if (hd_session_get_status(session) == HD_OK)
        hd_comm_post(session->options.comm, sync->sequence, sync->name, sync->transfers,
                     sync->n_transfers);
    hd_trace_open(sync->session->trace, sync->begin_ns);
    hd_last_event_set(&session->collective, sync->name, sync->sequence, sync->begin_ns);
    atomic_store(&sync->session->open, sync);
}

static void sync_ended(void *arg)
{
    struct hd_sync *sync = arg;
    hd_tsan_acquire(sync);
    struct hd_session *session = sync->session;
    struct hd_task_group *group = sync->group;
    hd_free(sync->owned);
    hd_free(sync);
    hd_session_end_task(session, group);
}

static bool cancelled(void *arg)
{
    const struct hd_session *session = arg;
    return session->options.interrupted && *session->options.interrupted;
}

/* The sequential executor's: nothing else runs, so it waits here. */
static int wait_for_ranks(struct hd_session *session, const struct hd_sync_point *point)
{
    const int64_t limit_ns = session->options.watchdog_ns;
    int status;
    if (hd_session_get_status(session) != HD_OK)
        return HD_OK;
    if (point->device_collective) {
        post_device_collective(session, point->sequence, point->device_collective);
        status = hd_device_comm_wait(session->options.device_comm, point->sequence, limit_ns,
                                     cancelled, session);
    } else {
        hd_comm_post(session->options.comm, point->sequence, point->name, point->transfers,
                     point->n_transfers);
        status = hd_comm_wait(session->options.comm, point->sequence, limit_ns, cancelled, session);
    }
    if (status == HD_ERR_WATCHDOG)
        hd_session_fail(session, status, "rank %d waited too long in %s", session->options.rank,
                        point->name);
    else if (status != HD_OK)
        hd_session_poll(session); /* latches the cause */
    return HD_OK;
}

int hd_submit_sync(struct hd_session *session, const struct hd_sync_point *point)
{
    if (session->options.sequential) {
        HD_TRY(wait_for_ranks(session, point));
        hd_free(point->owned);
        return HD_OK;
    }
    struct hd_sync *sync = hd_alloc(1, sizeof *sync);
    if (!sync)
        return HD_ERR_NOMEM;
    struct starpu_task *starpu = starpu_task_create();
    *sync = (struct hd_sync){.session = session,
                             .task = starpu,
                             .sequence = point->sequence,
                             .iteration = point->iteration,
                             .name = point->name,
                             .group = point->group,
                             .device_collective = point->device_collective,
                             .transfers = point->transfers,
                             .n_transfers = point->n_transfers,
                             .owned = point->owned};
    starpu->name = point->name;
    starpu->priority = hd_session_clamp_priority(session, point->priority);
    starpu->callback_func = sync_ended;
    starpu->callback_arg = sync;
    int status =
        set_handles(starpu, point->name, point->accesses, point->n_accesses, session->token);
    if (status != HD_OK) {
        discard(starpu);
        hd_free(sync);
        return status;
    }
    leave_open(starpu, post_sync, sync);
    hd_tsan_release(sync);
    return submit_starpu(session, starpu, point->group);
}
