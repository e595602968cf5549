/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and sync points as the engine's own files see them. Workers may call the functions that say
 * "any thread"; the session's thread alone calls the others. */
#pragma once

#include "runtime/engine/session_internal.h"
#include "runtime/engine/submit.h"

/* A copy of a submitted task. Records are recycled: workers push them on free_records, the
 * submitter takes the whole list at once, so that the list needs no lock and has no ABA problem. */
struct hd_task_record {
    struct hd_task_record *next;
    struct hd_task_record *fused; /* the next one of the same StarPU task; or NULL */
    struct hd_session *session;
    struct hd_task task;
    const char *name; /* of all that are fused */
    struct hd_codelet *codelet;
    int64_t begin_ns; /* when the body was called: tasks of GPUs, and those that have waited */
    struct starpu_task *open; /* tasks called again: holds the accesses until it ends */
    int status;               /* tasks called again: what the last call said */
    struct hd_waiting waiting;
};

struct hd_buffer {
    struct hd_session *session;
    int buckets;
    int64_t partials;
    starpu_data_handle_t handles[]; /* [buckets][partials] */
};

/* Returns the verb that a StarPU task is told as: fused tasks are one. */
static inline const char *hd_record_get_verb(const struct hd_task_record *record)
{
    return record->fused ? record->name : record->task.verb;
}

/* Returns the codelet of a verb's tasks, which the session makes at the first of them and frees
 * (codelets.c); NULL: there is no memory. */
struct hd_codelet *hd_codelet_find(struct hd_session *session, const char *verb);

/* Makes a StarPU task, whose handles and cl_arg, a struct hd_task_record, are set, one of the
 * codelet at `home`. Any thread (codelets.c). */
void hd_codelet_apply(const struct hd_session *session, struct hd_codelet *codelet, int home,
                      struct starpu_task *starpu);

/* Returns a StarPU task with the handles of `accesses` and a token (NULL: none), which calls
 * ended(arg); NULL: there is no memory (logged). hd_starpu_submit takes it (handles.c). */
struct starpu_task *hd_starpu_make(const char *name, const struct hd_access *accesses, int n,
                                   starpu_data_handle_t token, void (*ended)(void *arg), void *arg);

/* Has the StarPU task end not when it has run, but when it is released, and calls granted(arg) when
 * it has its accesses. Its handles are set before. */
void hd_starpu_leave_open(struct starpu_task *starpu, void (*granted)(void *arg), void *arg);

/* Submits a StarPU task, after what was submitted before it. Returns HD_OK, or HD_ERR_NOMEM or
 * HD_ERR_SYSTEM (logged). */
int hd_starpu_submit(struct hd_session *session, struct starpu_task *starpu,
                     struct hd_task_group *group);

/* Counts the end of a task. Any thread. */
void hd_session_end_task(struct hd_session *session, struct hd_task_group *group);

/* Runs a task on `lane` with its context completed, stamps it and latches its error. A body that
 * returns HD_AGAIN, or HD_WAITS and is soon ready, is called again at once; of a background task,
 * until a time slice is over. Returns HD_AGAIN or HD_WAITS where it still wants to be called, else
 * HD_OK. Any thread (task.c). */
int hd_session_execute(struct hd_session *session, int lane, struct hd_task *task);

/* Run the fused tasks of a GPU in two steps: their bodies queue work on `stream`; the work is done,
 * and their `finish` is called, unless the second returns that the body is to be called again. The
 * GPU's worker calls them (task.c). */
void hd_session_launch_gpu_task(struct hd_session *session, struct hd_task_record *record,
                                void *stream);
bool hd_session_complete_gpu_task(struct hd_session *session, struct hd_task_record *record);

/* Queues a call of a task that is called again, whose accesses are granted; arg is its struct
 * hd_task_record. Any thread (calls.c). */
void hd_session_start_call(void *arg);

/* Returns the lane of the calling worker (no status), and the stream of a GPU's worker. Any worker
 * (session_devices.c). */
int hd_session_get_lane(const struct hd_session *session);
void *hd_session_get_local_stream(void);

/* Binds the GPU's worker that calls it to its CPU (session_devices.c). */
void hd_session_bind_gpu_worker(struct hd_session *session, int home);

/* Returns the priority that the scheduler is told: one without priorities accepts 0 alone. */
static inline int hd_session_clamp_priority(const struct hd_session *session, int priority)
{
    return priority < session->starpu.lowest    ? session->starpu.lowest
           : priority > session->starpu.highest ? session->starpu.highest
                                                : priority;
}

/* Returns the channel of a collective that states number `i`; NULL where there is one rank. */
static inline struct hd_session_channel *hd_session_get_channel(struct hd_session *session, int i)
{
    return session->exchanges.n > 0 ? &session->exchanges.channels[i % session->exchanges.n] : NULL;
}

/* Submits a sync point, or waits at it under the sequential executor, because nothing else could
 * run. Returns HD_OK, HD_ERR_NOMEM or HD_ERR_SYSTEM (logged) (sync.c). */
int hd_submit_sync(struct hd_session *session, const struct hd_sync_point *point);

/* CUDA graphs of the work that tasks queue on a GPU (cuda_graphs.c). Tasks that queue the same for
 * the same addresses are captured at the second time; afterwards their launches, some dozens, are
 * one. One thread at a time for each set of graphs, unless stated otherwise. */
/* Creates an empty set for the calling thread's GPU, released, also after a failure, by
 * hd_cuda_graphs_destroy (accepts NULL) when no graph is running. Returns HD_OK, HD_ERR_NOMEM or
 * HD_ERR_DEVICE (logged). */
int hd_cuda_graphs_create(struct hd_cuda_graphs **cuda_graphs_p);
void hd_cuda_graphs_destroy(struct hd_cuda_graphs *cuda_graphs);

/* Queues the work of n >= 1 tasks, one after another, whose contexts are complete and have the same
 * stream: by one launch if it can be recorded, which that of several can. Returns HD_OK, or the
 * status of a task's body or HD_ERR_DEVICE (logged), with that task in *failed_p. */
int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                       const struct hd_task **failed_p);

/* Asks GPU `device` whether it has failed, by its stream; by an event while the stream is captured,
 * since a question would end that. Returns HD_OK or HD_ERR_DEVICE (logged). Any thread. */
int hd_cuda_graphs_check(struct hd_cuda_graphs *cuda_graphs, int device, void *stream);
