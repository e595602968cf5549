/* SPDX-License-Identifier: Apache-2.0 */
/* Sync points: asynchronous tasks that hold their channel's token until all ranks have arrived. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/trace.h"
#include "runtime/engine/tsan_internal.h"

struct hd_sync {
    struct hd_session *session;
    struct starpu_task *task;
    struct hd_sync_point point; /* its accesses are gone */
    int64_t begin_ns;           /* when this rank arrived */
    int64_t number;             /* as of tasks */
};

/* Latches a failure of the device comm. One that comes from a GPU is told as the GPU's. */
static void fail_device_comm(struct hd_session *session, const char *name, int status)
{
    char text[HD_DEVICE_COMM_MESSAGE_BYTES] = "";
    hd_session_check_devices(session);
    hd_device_comm_get_error(session->options.device_comm, text, sizeof text);
    hd_session_fail(session, status, "%s: %s", name, text);
}

static bool has_ended(struct hd_session *session, const struct hd_sync_point *point)
{
    char text[HD_DEVICE_COMM_MESSAGE_BYTES];
    if (!point->device_collective)
        return hd_channel_test(point->channel->channel, point->sequence);
    if (hd_device_comm_test(session->options.device_comm, point->sequence))
        return true;
    int status = hd_device_comm_get_error(session->options.device_comm, text, sizeof text);
    if (status != HD_OK)
        fail_device_comm(session, point->name, status);
    return false;
}

static void progress(struct hd_session *session, struct hd_session_channel *channel)
{
    if (!atomic_load_explicit(&channel->open, memory_order_relaxed))
        return;
    /* Taken away, so that no other thread ends and frees it meanwhile; the next one opens later. */
    struct hd_sync *sync = atomic_exchange(&channel->open, NULL);
    if (!sync)
        return;
    if (hd_session_get_status(session) == HD_OK && !has_ended(session, &sync->point)) {
        atomic_store(&channel->open, sync);
        return;
    }
    const struct hd_event wait = {.name = sync->point.name,
                                  .begin_ns = sync->begin_ns,
                                  .end_ns = hd_clock_get_ns(),
                                  .number = sync->number,
                                  .iteration = (int32_t)sync->point.iteration,
                                  .shard = -1};
    hd_trace_close(session->trace, channel->number, &wait);
    hd_last_event_set(&channel->waits, NULL, 0, 0);
    atomic_fetch_sub(&session->exchanges.n_open, 1);
    hd_tsan_release(sync);
    starpu_task_end_dep_release(sync->task);
}

void hd_session_progress(struct hd_session *session)
{
    for (int i = 0; i < session->exchanges.n; i++)
        progress(session, &session->exchanges.channels[i]);
    hd_session_resume_tasks(session);
}

static void post(struct hd_session *session, const struct hd_sync_point *point)
{
    struct hd_channel *channel = point->channel->channel;
    int status = HD_OK;
    if (point->device_collective)
        status = hd_device_comm_post(session->options.device_comm, point->sequence,
                                     point->device_collective);
    else if (point->on_host)
        hd_channel_arrive_on_host(channel, point->sequence, point->name);
    else
        (point->pairs ? hd_channel_post_pairs : hd_channel_post)(
            channel, point->sequence, point->name, point->transfers, point->n_transfers);
    if (status != HD_OK)
        fail_device_comm(session, point->name, status);
}

static void begin(void *arg)
{
    struct hd_sync *sync = arg;
    hd_tsan_acquire(sync);
    struct hd_session *session = sync->session;
    struct hd_session_channel *channel = sync->point.channel;
    sync->begin_ns = hd_clock_get_ns();
    /* After an error the tasks before this point may not have run, so others must not read. */
    if (hd_session_get_status(session) == HD_OK)
        post(session, &sync->point);
    hd_trace_open(session->trace, sync->begin_ns);
    hd_last_event_set(&channel->waits, sync->point.name, sync->point.sequence, sync->begin_ns);
    atomic_fetch_add(&session->exchanges.n_open, 1);
    atomic_store(&channel->open, sync);
    hd_progress_thread_wake(session);
}

static void sync_ended(void *arg)
{
    struct hd_sync *sync = arg;
    hd_tsan_acquire(sync);
    struct hd_session *session = sync->session;
    struct hd_task_group *group = sync->point.group;
    hd_free(sync->point.owned);
    hd_free(sync);
    hd_session_end_task(session, group);
}

static bool cancelled(void *arg)
{
    const struct hd_session *session = arg;
    return session->options.interrupted && *session->options.interrupted;
}

/* The sequential executor waits here, as nothing else runs. */
static int wait_for_ranks(struct hd_session *session, const struct hd_sync_point *point)
{
    const int64_t limit_ns = session->options.watchdog_ns;
    int status;
    if (hd_session_get_status(session) != HD_OK)
        return HD_OK;
    post(session, point);
    if (point->device_collective)
        status = hd_device_comm_wait(session->options.device_comm, point->sequence, limit_ns,
                                     cancelled, session);
    else
        status =
            hd_channel_wait(point->channel->channel, point->sequence, limit_ns, cancelled, session);
    if (status == HD_ERR_WATCHDOG)
        hd_session_fail(session, status, "rank %d waited too long in %s", session->options.rank,
                        point->name);
    else if (status == HD_ERR_DEVICE)
        fail_device_comm(session, point->name, status);
    else if (status != HD_OK)
        hd_session_poll(session); /* latches the cause */
    return HD_OK;
}

int64_t hd_sync_point_get_number(const struct hd_sync_point *point)
{
    return point->sequence * point->channel->of + point->channel->number;
}

static int observe(struct hd_session *session, const struct hd_sync_point *point)
{
    struct hd_recorder *observer = session->options.observer;
    session->tasks.observed += observer != NULL;
    return observer ? observer->sync(observer, point) : HD_OK;
}

int hd_submit_sync(struct hd_session *session, const struct hd_sync_point *point)
{
    struct hd_recorder *recorder = session->options.recorder;
    HD_TRY(observe(session, point));
    if (session->options.sequential) {
        HD_TRY(recorder ? recorder->sync(recorder, point) : wait_for_ranks(session, point));
        hd_free(point->owned);
        return HD_OK;
    }
    struct hd_sync *sync = hd_alloc(1, sizeof *sync);
    if (!sync)
        return HD_ERR_NOMEM;
    struct starpu_task *starpu = hd_starpu_make(point->name, point->accesses, point->n_accesses,
                                                point->channel->token, sync_ended, sync);
    if (!starpu) {
        hd_free(sync);
        return HD_ERR_NOMEM;
    }
    *sync = (struct hd_sync){
        .session = session, .task = starpu, .point = *point, .number = session->tasks.observed};
    starpu->priority = hd_session_clamp_priority(session, point->priority);
    hd_starpu_leave_open(starpu, begin, sync);
    hd_tsan_release(sync);
    return hd_starpu_submit(session, starpu, point->group);
}
