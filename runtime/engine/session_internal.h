/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a session. Workers may call the functions that say "any thread"; the session's
 * thread alone calls the others. */
#pragma once

#include "runtime/base/log.h"
#include "runtime/engine/session.h"

#include <pthread.h>
#include <starpu.h>
#include <unistd.h>

struct hd_sync;
struct hd_codelet;
struct hd_task_record;
struct hd_cuda_graphs;

/* Something that happened last, for hd_session_describe; torn reads mix two tasks, which does no
 * harm. */
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

/* The task that a worker runs now. */
struct hd_running {
    _Atomic(const char *) name; /* NULL: none */
    atomic_int_fast64_t iteration, shard, begin_ns;
    struct hd_task_progress progress; /* of all its tasks */
};

/* A task that waits for something outside and holds no worker. */
struct hd_waiting {
    struct hd_waiting *next;
    struct hd_task_record *record;
    struct hd_running running; /* what its worker has noted, for reports of hangs */
};

/* All of them (calls.c). */
struct hd_waits {
    pthread_mutex_t lock;
    struct hd_waiting *first;
    atomic_int n;
};

enum { HD_IN_FLIGHT_MAX = 4 }; /* StarPU's STARPU_MAX_PIPELINE */

/* The tasks whose work a GPU was given and has not ended, in this order. Its worker counts them. */
struct hd_in_flight {
    struct hd_running tasks[HD_IN_FLIGHT_MAX];
    int64_t launched, ended;
    bool bound; /* its worker is, if the options say so */
};

enum { HD_FUSED_MAX = 64 };

/* Tasks of a GPU that are to be one StarPU task (submit.c). */
struct hd_fusion {
    const char *name; /* NULL: nothing is fused now */
    int home, n;
    struct hd_task_record *first, *last;
    struct hd_access *accesses; /* of all of them */
    int64_t n_accesses, accesses_capacity;
    const struct hd_session_channel *channel; /* that one of them is on; or NULL */
};

/* Drives sync points on where ranks are on several hosts (progress.c). */
struct hd_progress_thread {
    bool running;
    pthread_t thread;
    int wake_fd; /* an eventfd: written for each sync point that begins, and to stop */
    atomic_bool stop;
};

/* StarPU, as the session has started it (session_starpu.c). */
struct hd_starpu_state {
    bool running;
    struct starpu_driver driver; /* of the worker that the submitting thread is */
    int idle_hook;
    const char *scheduler;         /* as StarPU calls the one that it took */
    bool models;                   /* codelets have performance models */
    struct hd_codelet *codelets;   /* the list of all (codelets.c) */
    int lowest, highest;           /* priorities that the scheduler knows */
    int lanes[STARPU_NMAXWORKERS]; /* by StarPU's number of a worker */
};

/* A GPU of the session, by its home - 1 (session_devices.c). */
struct hd_session_gpu {
    int worker; /* StarPU's number of its worker */
    struct hd_cuda_graphs *graphs;
    _Atomic(void *) stream; /* StarPU's: once a task was launched there */
    struct hd_in_flight in_flight;
    int64_t ended_ns; /* when its last task ended */
};

/* Collectives of a channel follow one another; those of different channels do not wait for each
 * other (sync.c, collective/). */
struct hd_session_channel {
    struct hd_channel *channel; /* of the communicator */
    int number, of;             /* channel `number` of so many */
    starpu_data_handle_t token; /* orders the collectives */
    int64_t next_sequence;
    _Atomic(struct hd_sync *) open; /* the sync point that waits for other ranks; or NULL, also
                                       while a thread looks at it */
    struct hd_last_event waits;     /* in this one; name NULL: in none */
};

struct hd_exchanges {
    struct hd_session_channel *channels; /* [n]; none where there is one rank */
    int n;
    atomic_int n_open;    /* sync points */
    void *device_scratch; /* of the open collective, on the first GPU */
    struct hd_progress_thread thread;
};

/* The last of each kind of event, by which the session tells whether it goes on. */
struct hd_session_events {
    struct hd_last_event submitted, begun, ended;  /* tasks, numbered by iteration */
    struct hd_running running[STARPU_NMAXWORKERS]; /* CPU workers', by lane */
    _Atomic(const char *) waits_for;     /* what the submitter waits for; NULL: it does not */
    atomic_int_fast64_t gpus_checked_ns; /* when hd_session_watch last asked the GPUs */
    atomic_int_fast64_t other_progress;  /* than that of its tasks */
    atomic_int_fast64_t seen_progress, seen_ns; /* when the watchdog last saw it grow */
};

/* The tasks that are submitted, and the memory for them (submit.c, calls.c). */
struct hd_session_tasks {
    atomic_int pending;             /* submitted and not ended */
    atomic_int_fast64_t finished;   /* ended so far */
    int64_t observed;               /* that the observer was told of */
    starpu_data_handle_t log_token; /* orders the tasks that log */
    struct hd_waits waits;
    struct hd_fusion fusion;
    _Atomic(struct hd_task_record *) free_records;
    struct hd_task_record *record_cache; /* the submitter's own list */
};

/* The first error (failure.c). */
struct hd_failure {
    pthread_mutex_t lock;
    atomic_int status;
    int cause; /* valid once `status` is an error */
    char message[HD_MESSAGE_BYTES];
    int64_t told_ns; /* when options.waiting was last called */
};

struct hd_session {
    struct hd_session_options options;
    pthread_t thread; /* that creates it, submits and waits */
    bool started;
    void **scratch; /* one block per lane: CPU workers, then GPUs */
    int64_t scratch_bytes;
    struct hd_trace *trace;
    struct hd_starpu_state starpu;
    struct hd_session_gpu gpus[HD_DEVICES_MAX];
    struct hd_exchanges exchanges;
    struct hd_session_tasks tasks;
    struct hd_session_events events;
    struct hd_failure failure;
};

/* Latches a failure from outside, a signal or another rank's, and returns the first error or HD_OK;
 * called by the session's thread, it calls options.waiting now and then. Cheap. Any thread
 * (failure.c). */
int hd_session_poll(struct hd_session *session);

/* Ends the open sync points at which all ranks have arrived, or all if the session failed, and
 * resumes tasks. Any thread (sync.c). */
void hd_session_progress(struct hd_session *session);

/* Queues the next calls of tasks that have waited for something outside which is ready now, or of
 * all if the session failed. Costs a load where none waits. Any thread (calls.c). */
void hd_session_resume_tasks(struct hd_session *session);

/* Latches that `name` could be submitted in part only, because of `status`, and waits until what is
 * submitted has ended, so that its memory may be freed. Returns status. */
int hd_session_abandon(struct hd_session *session, int status, const char *name);

/* Submits what fusing has collected so far (submit.c). Returns HD_OK, or HD_ERR_NOMEM or
 * HD_ERR_SYSTEM (logged), with which nothing of it is submitted. */
int hd_session_flush(struct hd_session *session);

/* Frees the recycled records of tasks, and the memory for fusing them (submit.c). */
void hd_session_free_task_records(struct hd_session *session);

/* Frees the codelets, when StarPU has stopped (codelets.c). */
void hd_session_free_codelets(struct hd_session *session);

/* StarPU's start and stop (session_starpu.c). Returns HD_OK, or HD_ERR_UNSUPPORTED or HD_ERR_SYSTEM
 * (logged). */
int hd_session_start_starpu(struct hd_session *session);
void hd_session_stop_starpu(struct hd_session *session);

/* Sets the environment variables that StarPU needs while it starts, and sets them back
 * (starpu_environment.c). With `models`, it finds copies of the performance models of folder `dir`
 * (NULL: none). One thread at a time. The first returns HD_OK, or HD_ERR_SYSTEM or HD_ERR_NOMEM
 * (logged), with which the other must not be called. */
int hd_starpu_environment_enter(bool models, const char *dir);
void hd_starpu_environment_leave(void);

/* Copies the performance models in StarPU's folder, which it writes when it stops, to folder `dir`,
 * and warns of what cannot be written; NULL: removes them (starpu_environment.c). */
void hd_starpu_models_move(const char *dir);

/* Removes the temporary folder of StarPU, if it has one (starpu_environment.c). */
void hd_starpu_environment_clean(void);

/* The GPUs' workers, streams and scratch (session_devices.c). Returns HD_OK, or (logged)
 * HD_ERR_UNSUPPORTED, HD_ERR_SYSTEM, HD_ERR_DEVICE, HD_ERR_NOMEM. */
int hd_session_start_devices(struct hd_session *session);
void hd_session_stop_devices(struct hd_session *session);

/* Asks each GPU whether it has failed, which StarPU does not tell. Returns HD_OK or HD_ERR_DEVICE
 * (logged). Any thread (session_devices.c). */
int hd_session_check_devices(struct hd_session *session);

/* Start and stop the thread that drives sync points on while workers are busy, if ranks are on
 * several hosts. The first returns HD_OK or HD_ERR_SYSTEM (logged) (progress.c). */
int hd_progress_thread_start(struct hd_session *session);
void hd_progress_thread_stop(struct hd_session *session);

/* Wakes it for the sync point that has begun. Any thread. */
static inline void hd_progress_thread_wake(struct hd_session *session)
{
    const uint64_t one = 1;
    if (session->exchanges.thread.running &&
        write(session->exchanges.thread.wake_fd, &one, sizeof one) < 0)
        hd_log(HD_LOG_WARN, "the transport's thread cannot be woken: %m");
}

/* Says how long a thread has had nothing to do; {0} at first. */
struct hd_idle {
    int rounds;
    int64_t since_ns; /* of the first nap; 0: none yet */
};

/* Idle policy (progress.c). A round without anything to do yields, and after a while naps (hd_nap).
 * The hook is StarPU's, for its idle workers; the submitter naps between its own polls instead. Any
 * thread. */
void hd_idle(struct hd_idle *idle);
unsigned hd_idle_hook(void *session);
void hd_idle_mark_submitter(void);
