/* SPDX-License-Identifier: Apache-2.0 */
/* What session.c, submit.c and collective.c share. Not for others. */
#ifndef HD_RUNTIME_ENGINE_SESSION_INTERNAL_H
#define HD_RUNTIME_ENGINE_SESSION_INTERNAL_H

#include "runtime/engine/cuda_graphs.h"
#include "runtime/engine/submit.h"
#include "runtime/engine/trace.h"

#include <pthread.h>
#include <starpu.h>

/* The asynchronous task of a collective: it holds the token until all ranks have arrived. */
struct hd_sync {
    struct hd_session *session;
    struct starpu_task *task;
    const struct hd_device_collective
        *device_collective;                   /* what NCCL does meanwhile; or NULL: nothing */
    const struct hd_comm_transfer *transfers; /* [n_transfers], as hd_comm_post takes them */
    int n_transfers;
    void *owned; /* freed with it, as of tasks */
    int64_t sequence, iteration;
    const char *name;
    struct hd_task_group *group;
    int64_t begin_ns; /* when this rank arrived */
};

/* A submitted task's own copy. Records are recycled: workers push them on free_records, the
 * submitter takes the whole list at once, so that the list needs no lock and has no ABA problem. */
struct hd_task_record {
    struct hd_task_record *next;
    struct hd_session *session;
    struct hd_task task;
    int64_t begin_ns;         /* tasks of GPUs: when the body was called */
    struct starpu_task *open; /* background tasks: holds the accesses until it ends */
    bool again;               /* background tasks: there is another slice */
};

/* For hd_session_describe; torn reads mix two tasks, which does no harm. */
struct hd_last_event {
    _Atomic(const char *) name; /* NULL: not yet */
    atomic_int_fast64_t number, at_ns;
};

static inline void hd_last_event_set(struct hd_last_event *event, const char *name, int64_t number,
                                     int64_t at_ns)
{
    atomic_store_explicit(&event->name, name, memory_order_relaxed);
    atomic_store_explicit(&event->number, number, memory_order_relaxed);
    atomic_store_explicit(&event->at_ns, at_ns, memory_order_relaxed);
}

struct hd_session {
    struct hd_session_options options;
    bool starpu_running;
    struct starpu_driver driver; /* of the worker that the submitting thread is */
    int idle_hook;
    int lowest, highest; /* priorities that the scheduler knows */
    struct hd_trace *trace;

    void **scratch; /* one block per lane: CPU workers, then GPUs */
    int64_t scratch_bytes;
    int lanes[STARPU_NMAXWORKERS];      /* by StarPU's number of a worker */
    int device_workers[HD_DEVICES_MAX]; /* StarPU's numbers of the GPUs' workers, by home - 1 */
    struct hd_cuda_graphs *cuda_graphs[HD_DEVICES_MAX];
    void *device_comm_scratch;               /* of the open collective */
    void *device_streams[HD_DEVICES_MAX];    /* sequential executor only */
    int64_t device_ended_ns[HD_DEVICES_MAX]; /* when the last task of a GPU ended */

    struct hd_buffer *token;     /* orders the collectives */
    struct hd_buffer *log_token; /* orders the tasks that log */
    int64_t next_sequence;       /* of collectives */
    _Atomic(struct hd_sync *) open;

    struct hd_last_event submitted, started, ended; /* tasks, numbered by iteration */
    struct hd_last_event collective;                /* that is open; name NULL: none is */

    struct hd_task_group all_tasks;
    atomic_int_fast64_t finished; /* tasks ended so far */
    _Atomic(struct hd_task_record *) free_records;
    struct hd_task_record *record_cache; /* the submitter's own list */

    pthread_mutex_t lock; /* of the error latch */
    atomic_int status;
    char message[HD_MESSAGE_BYTES];
};

struct hd_buffer {
    struct hd_session *session;
    int buckets;
    int64_t partials;
    starpu_data_handle_t handles[]; /* [buckets][partials] */
};

/* A task ended: updates its group. Any thread. */
void hd_session_end_task(struct hd_session *session, struct hd_task_group *group);

/* Something could be submitted in part only, because of `status`: the session fails, and what is
 * submitted has ended when this returns, so that its memory may be freed. Returns status. */
int hd_session_abandon(struct hd_session *session, int status, const char *name);

/* Frees the recycled jobs. */
void hd_session_free_task_records(struct hd_session *session);

/* Ends the open collective if all ranks have arrived or the session failed. Any thread. */
void hd_session_progress(struct hd_session *session);

/* Latches what ends a run from outside, a signal or another rank's failure, and returns the first
 * error. Cheap. Any thread. */
int hd_session_poll(struct hd_session *session);

/* Runs a task on `lane` with its context completed, stamps it, latches its error. A body that
 * returns HD_AGAIN is called again at once until time_slice_ns are over (0: no limit); returns
 * whether it then still wants to be called. */
bool hd_session_execute(struct hd_session *session, int lane, struct hd_task *task,
                        int64_t time_slice_ns);

/* The same for a task of a GPU, in two steps: its body queues work on `stream`; the work is done.
 */
void hd_session_launch_gpu_task(struct hd_session *session, struct hd_task_record *record,
                                void *stream);
void hd_session_complete_gpu_task(struct hd_session *session, const struct hd_task_record *record);

/* The lane of the calling worker. */
int hd_session_get_lane(const struct hd_session *session);

/* The GPUs' part of start and stop (session_devices.c). */
int hd_session_start_devices(struct hd_session *session);
void hd_session_stop_devices(struct hd_session *session);
void *hd_session_get_local_stream(void);

/* What the scheduler is told: those that know no priorities take any but 0 amiss. */
static inline int hd_session_clamp_priority(const struct hd_session *session, int priority)
{
    return priority < session->lowest    ? session->lowest
           : priority > session->highest ? session->highest
                                         : priority;
}

/* Starts the slices of a background task whose accesses are granted; arg is its struct
 * hd_task_record. */
void hd_session_start_time_slices(void *arg);

/* What a sync point is: the token and `accesses` are held until all ranks have arrived at
 * `sequence`. */
struct hd_sync_point {
    const char *name;
    int64_t sequence, iteration;
    const struct hd_access *accesses; /* read at submission only */
    int n_accesses;
    int priority;
    struct hd_task_group *group;
    const struct hd_device_collective *device_collective; /* as in struct hd_sync */
    const struct hd_comm_transfer *transfers;
    int n_transfers;
    void *owned;
};

/* Submits one; under the sequential executor waits here, because nothing else could run. */
int hd_submit_sync(struct hd_session *session, const struct hd_sync_point *point);

#endif
