/* SPDX-License-Identifier: Apache-2.0 */
/* What session.c, submit.c and collective.c share. Not for others. */
#ifndef HD_RUNTIME_SESSION_INTERNAL_H
#define HD_RUNTIME_SESSION_INTERNAL_H

#include "runtime/submit.h"
#include "runtime/trace.h"

#include <pthread.h>
#include <starpu.h>

/* The open task of a collective: it holds the token until all ranks have arrived. */
struct hd_sync {
    struct hd_session *session;
    struct starpu_task *task;
    int64_t sequence, iteration;
    const char *name;
    struct hd_group *group;
    int64_t begin_ns; /* when this rank arrived */
};

struct hd_job;

struct hd_session {
    struct hd_session_options options;
    bool starpu_running;
    struct starpu_driver driver; /* of the worker that the submitting thread is */
    int idle_hook;
    struct hd_trace *trace;

    void **scratch; /* one block per worker */
    int64_t scratch_bytes;

    struct hd_buffer *token;     /* orders the collectives */
    struct hd_buffer *log_token; /* orders the tasks that log */
    int64_t next_sequence;       /* of collectives */
    _Atomic(struct hd_sync *) open;

    struct hd_group everything;
    atomic_int_fast64_t finished; /* tasks ended so far */
    _Atomic(struct hd_job *) free_jobs;
    struct hd_job *job_cache; /* the submitter's own list */

    pthread_mutex_t lock; /* of the error latch */
    atomic_int status;
    char message[HD_MESSAGE_BYTES];
};

struct hd_buffer {
    struct hd_session *session;
    int parts;
    starpu_data_handle_t handles[];
};

/* A task ended: updates its group. Any thread. */
void hd_session_ended(struct hd_session *session, struct hd_group *group);

/* Frees the recycled jobs. */
void hd_session_free_jobs(struct hd_session *session);

/* Ends the open collective if all ranks have arrived or the session failed. Any thread. */
void hd_session_progress(struct hd_session *session);

/* Runs a body on `worker` with its context completed, stamps it, latches its error. */
void hd_session_execute(struct hd_session *session, int worker, struct hd_task *task);

/* Submits the task that holds the token until all ranks have arrived at `sequence`. */
int hd_submit_sync(struct hd_session *session, int64_t sequence, const struct hd_collective *c);

#endif
