/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that calls bodies: it gives them scratch, stamps times, latches errors, and calls
 * again those that return HD_AGAIN or HD_WAITS. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/crash.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/trace.h"
#include "runtime/engine/tsan_internal.h"

enum { TIME_SLICE_NS = 5000000 };

/* -- Calling a body ---------------------------------------------------------------------------- */

static void complete(struct hd_session *session, int lane, struct hd_task *task, char *message)
{
    struct hd_context *context = &task->context;
    context->scratch = session->scratch[lane];
    context->message = message;
    context->n_views = task->n;
    context->dump_views = session->options.dump_views;
    context->dump_arg = session->options.dump_arg;
    if (task->logs) {
        context->logbook = session->options.logbook;
        context->timing = hd_trace_get_timings(session->trace);
    }
}

/* Without lists of its own, `finish` gets what the body had. */
static int finish(struct hd_task *task)
{
    struct hd_context *context = &task->context;
    void *const *work_buffers = context->work_buffers, *const *headers = context->headers;
    if (!work_buffers)
        context->work_buffers = &context->work;
    if (!headers)
        context->headers = &context->header;
    const int status = task->finish(context, task->views, task->args);
    context->work_buffers = work_buffers;
    context->headers = headers;
    return status;
}

/* Returns whether what a body waits for is there. A task that may leave its worker looks for a
 * short while, because coming back costs about as much. */
static bool await(struct hd_session *session, const struct hd_task *task)
{
    const double short_s = 50e-6, turn_s = 0.1;
    const struct hd_context *context = &task->context;
    const bool leaves = (task->waits || task->background) && !session->options.sequential;
    while (!context->ready(context->ready_arg, leaves ? short_s : turn_s))
        if (leaves || hd_session_poll(session) != HD_OK)
            return false;
    return true;
}

/* Returns whether a body that has returned `status` is to be called again by this worker. */
static bool is_due(struct hd_session *session, struct hd_task *task, int status)
{
    task->context.again = status == HD_AGAIN || status == HD_WAITS;
    return (status == HD_AGAIN || (status == HD_WAITS && await(session, task))) &&
           hd_session_poll(session) == HD_OK;
}

/* A body that would be called again is given up when the session has failed, so that Ctrl-C and
 * other ranks' failures end the run soon; nobody reads its unfinished output. */
static int call(struct hd_session *session, struct hd_task *task, int64_t until_ns)
{
    struct hd_context *context = &task->context;
    void *own_work = context->work, *own_header = context->header;
    if (!own_work)
        context->work = (char *)context->scratch + task->work_at;
    if (!own_header)
        context->header = (char *)context->scratch + task->header_at;
    int status = task->body(context, task->views, task->args);
    while (is_due(session, task, status)) {
        atomic_fetch_add_explicit(&context->progress->count, 1, memory_order_relaxed);
        if (until_ns > 0 && hd_clock_get_ns() >= until_ns) {
            status = HD_AGAIN;
            break;
        }
        status = task->body(context, task->views, task->args);
    }
    if (status == HD_OK && task->finish)
        status = finish(task);
    context->work = own_work;
    context->header = own_header;
    return status;
}

static struct hd_event event_of(const struct hd_task *task, int64_t begin_ns)
{
    const struct hd_context *context = &task->context;
    return (struct hd_event){.name = task->name,
                             .number = task->number,
                             .begin_ns = begin_ns,
                             .iteration = (int32_t)context->iteration,
                             .shard = (int16_t)context->shard,
                             .bucket = task->n ? (int16_t)task->views[0].bucket : 0,
                             .item = (int16_t)context->item,
                             .stage = (int16_t)context->stage};
}

static void latch(struct hd_session *session, const struct hd_task *task, int status,
                  const char *message)
{
    if (status != HD_OK)
        hd_session_fail(session, status, "task %s of iteration %lld failed on rank %d: %s",
                        task->name, (long long)task->context.iteration, session->options.rank,
                        message[0] ? message : hd_status_get_text(status));
}

/* Notes what a worker does, for reports of hangs, crashes and failed GPUs. */
static void note_start(struct hd_running *running, const struct hd_event *event)
{
    atomic_store_explicit(&running->progress.env, -1, memory_order_relaxed);
    atomic_store_explicit(&running->iteration, event->iteration, memory_order_relaxed);
    atomic_store_explicit(&running->shard, event->shard, memory_order_relaxed);
    atomic_store_explicit(&running->begin_ns, event->begin_ns, memory_order_relaxed);
    atomic_store_explicit(&running->name, event->name, memory_order_release);
}

static void note_end(struct hd_running *running)
{
    atomic_store_explicit(&running->name, NULL, memory_order_relaxed);
}

int hd_session_execute(struct hd_session *session, int lane, struct hd_task *task)
{
    const bool sliced = task->background && !session->options.sequential;
    if (hd_session_get_status(session) != HD_OK)
        return HD_OK;
    char message[HD_MESSAGE_BYTES] = "";
    complete(session, lane, task, message);
    struct hd_event event = event_of(task, hd_clock_get_ns());
    hd_trace_begin(session->trace, event.begin_ns);
    hd_last_event_set(&session->events.begun, task->name, event.iteration, event.begin_ns);
    note_start(&session->events.running[lane], &event);
    task->context.progress = &session->events.running[lane].progress;
    hd_crash_enter_task(event.name, event.iteration, event.shard);
    int status = call(session, task, sliced ? event.begin_ns + TIME_SLICE_NS : 0);
    hd_crash_leave_task();
    note_end(&session->events.running[lane]);
    event.end_ns = hd_clock_get_ns();
    hd_trace_end(session->trace, lane, task->verb, &event);
    hd_last_event_set(&session->events.ended, task->name, event.iteration, event.end_ns);
    if (status == HD_AGAIN || status == HD_WAITS)
        return hd_session_get_status(session) == HD_OK ? status : HD_OK;
    latch(session, task, status, message);
    return HD_OK;
}

/* -- Tasks of GPUs ----------------------------------------------------------------------------- */
/* A body only queues work. Its time lasts from the call to the end of that work, without the time
 * in which the GPU still worked for the task before. */

static struct hd_event gpu_event_of(const struct hd_task_record *record)
{
    struct hd_event event = event_of(&record->task, record->begin_ns);
    event.name = record->name;
    for (const struct hd_task_record *next = record->fused; next; next = next->fused)
        event.fused++;
    return event;
}

static int lane_of_home(const struct hd_session *session, int home)
{
    return session->options.workers + home - 1;
}

/* Queues the work of all fused tasks. Theirs are the lane, the scratch and the stream of the first,
 * and whoever fails names itself. */
static void queue_work(struct hd_session *session, struct hd_task_record *record, int lane,
                       void *stream)
{
    char message[HD_MESSAGE_BYTES] = "";
    struct hd_task *tasks[HD_FUSED_MAX];
    const struct hd_task *failed = NULL;
    int n = 0;
    for (; record; record = record->fused) {
        tasks[n] = &record->task;
        complete(session, lane, tasks[n], message);
        tasks[n++]->context.stream = stream;
    }
    const int home = tasks[0]->home;
    const int status = hd_cuda_graphs_run(session->gpus[home - 1].graphs, tasks, n, &failed);
    latch(session, failed, status, message);
}

void hd_session_launch_gpu_task(struct hd_session *session, struct hd_task_record *record,
                                void *stream)
{
    struct hd_task *task = &record->task;
    record->begin_ns = 0;
    if (hd_session_get_status(session) != HD_OK)
        return;
    const int lane = lane_of_home(session, task->home);
    struct hd_in_flight *in_flight = &session->gpus[task->home - 1].in_flight;
    session->gpus[task->home - 1].stream = stream;
    hd_device_clear_error();
    record->begin_ns = hd_clock_get_ns();
    const struct hd_event event = gpu_event_of(record);
    note_start(&in_flight->tasks[in_flight->launched++ % HD_IN_FLIGHT_MAX], &event);
    hd_trace_begin(session->trace, record->begin_ns);
    hd_last_event_set(&session->events.begun, event.name, event.iteration, record->begin_ns);
    queue_work(session, record, lane, stream);
}

static void finish_gpu_task(struct hd_session *session, struct hd_task *task)
{
    char message[HD_MESSAGE_BYTES] = "";
    if (!task->finish || hd_session_get_status(session) != HD_OK)
        return;
    task->context.message = message;
    latch(session, task, finish(task), message);
}

/* Tasks that may want to be called again are never fused. */
static bool wants_again(struct hd_session *session, struct hd_task *task)
{
    task->context.again = task->again && hd_session_get_status(session) == HD_OK &&
                          task->again(&task->context, task->args);
    return task->context.again;
}

bool hd_session_complete_gpu_task(struct hd_session *session, struct hd_task_record *record)
{
    if (record->begin_ns == 0)
        return false;
    const int home = record->task.home;
    struct hd_in_flight *in_flight = &session->gpus[home - 1].in_flight;
    note_end(&in_flight->tasks[in_flight->ended++ % HD_IN_FLIGHT_MAX]);
    int64_t *before_ns = &session->gpus[home - 1].ended_ns;
    struct hd_event event = gpu_event_of(record);
    event.end_ns = hd_clock_get_ns();
    if (event.begin_ns < *before_ns)
        event.begin_ns = *before_ns;
    *before_ns = event.end_ns;
    hd_last_event_set(&session->events.ended, event.name, event.iteration, event.end_ns);
    hd_trace_end(session->trace, lane_of_home(session, home), hd_record_get_verb(record), &event);
    if (wants_again(session, &record->task))
        return true;
    for (struct hd_task_record *each = record; each; each = each->fused)
        finish_gpu_task(session, &each->task);
    return false;
}
