/* SPDX-License-Identifier: Apache-2.0 */
/* A session holds the workers of this rank, its place among the ranks and the first error, and has
 * the only functions in which the submitting thread waits. One session at a time per process; the
 * thread that created it makes all calls unless stated otherwise.
 *
 * Under the executor "starpu", tasks run on StarPU's CPU workers. The submitting thread is always
 * one of them: it computes while it waits, so no core spins for it and nothing has to wake it. The
 * other workers nap when idle. Each GPU has one more worker, a thread that queues bodies on the
 * GPU's stream and polls for their ends, and so keeps a core busy. Under the executor "sequential",
 * every task runs at its submission, in program order, without StarPU; tests compare with it. */
#pragma once

#include "runtime/device.h"
#include "runtime/value.h"

#include <stdatomic.h>

struct hd_comm;
struct hd_device_comm;
struct hd_recorder;

/* This says how hosts exchange vectors that are added: all with all, or by pairs, whole or in
 * halves where they can be cut (collective/collective_internal.h). Sharded updates go by pairs in
 * halves. Sums have the same bits. */
enum hd_host_exchange {
    HD_EXCHANGE_AUTO,
    HD_EXCHANGE_DIRECT,
    HD_EXCHANGE_PAIRS,
    HD_EXCHANGE_HALVES
};

struct hd_session_options {
    bool sequential;
    struct hd_recorder *recorder; /* of a sequential session: is told of what is submitted, which
                                     then does not run, so that memory need not exist; or NULL.
                                     Borrowed */
    struct hd_recorder *observer; /* is told of what is submitted, and runs; or NULL. Borrowed */
    int workers;                  /* >= 1 */
    const char *scheduler;        /* StarPU's name for it */
    bool performance_models;      /* StarPU keeps a history of each verb's times, as it does anyway
                                     for a scheduler that needs one */
    const char *models_dir;       /* the folder where it begins with those of earlier sessions; or
                                     NULL. Borrowed */
    bool keeps_models;            /* a session without an error replaces them there at its end */
    int rank, ranks;
    struct hd_comm *comm;           /* NULL when ranks == 1; borrowed */
    enum hd_host_exchange exchange; /* the same on all ranks */
    int64_t scratch_bytes;          /* the largest need of any task and collective */
    int n_devices;                  /* GPUs: homes 1 … n_devices */
    int devices[HD_DEVICES_MAX];    /* CUDA's numbers of them */
    bool bind_devices;              /* their workers have CPUs to themselves: */
    int device_cpus[HD_DEVICES_MAX];
    int64_t device_scratch_bytes;
    struct hd_device_comm *device_comm; /* joins the ranks' GPUs; or NULL. Borrowed */
    bool library_order;                 /* it adds in the library's own order */
    int64_t device_comm_bytes;          /* of memory on the first GPU for its collectives,
                                    hd_collective_get_device_comm_bytes */
    int64_t watchdog_ns;                /* 0: none */
    int64_t trace_capacity;     /* events per worker kept for a trace file; 0: totals only */
    struct hd_logbook *logbook; /* rank 0's, or NULL; borrowed */
    void (*dump_views)(const struct hd_context *context, const struct hd_view *views,
                       const char *why); /* goes into every struct hd_context; or NULL */
    void *dump_arg;
    const atomic_int *interrupted; /* set by a signal handler; or NULL */
    void (*waiting)(void *arg);    /* called some times a second while the session's thread waits
                                      or is in a body that is called again; or NULL */
    void *waiting_arg;
};

struct hd_session;

/* Starts the workers. Released by hd_session_destroy (accepts NULL), which waits for submitted
 * tasks; all buffers must be gone before. Returns HD_OK, HD_ERR_NOMEM, or (logged)
 * HD_ERR_UNSUPPORTED, HD_ERR_SYSTEM, HD_ERR_DEVICE. */
int hd_session_create(const struct hd_session_options *options, struct hd_session **session_p);
void hd_session_destroy(struct hd_session *session);

/* Grows the scratch of every CPU worker to at least `bytes`. Nothing may be running. Returns HD_OK
 * or HD_ERR_NOMEM. */
int hd_session_reserve(struct hd_session *session, int64_t bytes);

/* Waits until ready(arg) holds and returns HD_OK, or the first error as soon as there is one: the
 * status of a task, HD_ERR_STOPPED or HD_ERR_INTERRUPTED by a signal, HD_ERR_PEER by another rank,
 * HD_ERR_WATCHDOG (none is logged). */
int hd_session_wait(struct hd_session *session, bool (*ready)(void *arg), void *arg);

/* Waits until everything submitted has ended; after an error tasks end without running, and
 * collectives without the other ranks. Returns HD_OK or the first error. */
int hd_session_drain(struct hd_session *session);

/* Latches the first error: keeps its status and sentence, makes later tasks no-ops and tells the
 * other ranks. Thread safe. */
void hd_session_fail(struct hd_session *session, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the first error, or HD_OK; the status with which the rank failed that caused it (the first
 * error is HD_ERR_PEER for all others; the cause is HD_ERR_PEER, too, where a rank was lost); and
 * its sentence ("" if none), valid until destroy. Thread safe. */
int hd_session_get_status(const struct hd_session *session);
int hd_session_get_cause(const struct hd_session *session);
const char *hd_session_get_message(const struct hd_session *session);

/* Writes in a line where the run is: the tasks last submitted, started and finished, the collective
 * that is open, and the tasks that run, or what the submitter waits for. Thread safe. */
void hd_session_describe(const struct hd_session *session, char *text, int64_t bytes);

/* Writes which tasks are on their way on GPUs: "adam of iteration 7 (shard -1) on GPU 0 since 0.1
 * s"; "": none. Thread safe. */
void hd_session_describe_in_flight(const struct hd_session *session, char *text, int64_t bytes);

/* Returns a count that grows with each task that ends, each step of an env and each call of a body.
 * Thread safe. */
int64_t hd_session_count_progress(const struct hd_session *session);

/* Says how far is what tasks may wait for, other ranks and files that are written: a number that
 * changes while these get on. Thread safe. */
void hd_session_set_other_progress(struct hd_session *session, int64_t count);

/* Fails the session when a signal or another rank's failure ends the run, or a GPU has failed; and
 * as the watchdog, without progress here and elsewhere for watchdog_ns, on the first of the ranks
 * that finds it, telling what each rank waits for. Waits call it; another thread does for a
 * submitter that is in a task or submits a long iteration. Returns whether this rank is stuck.
 * Thread safe. */
bool hd_session_watch(struct hd_session *session);

/* Returns the name of a task that a CPU worker runs, or that waits for something outside, or NULL.
 * Thread safe. */
const char *hd_session_get_running(const struct hd_session *session);

/* Returns this rank's area of the memory that all ranks see (hd_comm_create), as large as it was
 * asked for; NULL without other ranks. */
char *hd_session_get_area(const struct hd_session *session);

/* Return the session's options and its trace. They cannot fail. Thread safe. */
const struct hd_session_options *hd_session_get_options(const struct hd_session *session);
struct hd_trace *hd_session_get_trace(struct hd_session *session);

/* Returns the name of the scheduler that StarPU took; "none" without StarPU. It cannot fail. Thread
 * safe. */
const char *hd_session_get_scheduler(const struct hd_session *session);

/* Return how many CPU workers this build's StarPU allows a process, and whether it knows GPUs. They
 * cannot fail. Thread safe. */
int hd_session_get_workers_max(void);
bool hd_session_supports_devices(void);

/* Returns whether `name` is an accepted scheduler, and stores the NULL-ended list of all (names_p
 * may be NULL). Thread safe. */
bool hd_scheduler_is_known(const char *name, const char *const **names_p);

/* Returns whether a scheduler places tasks by performance models. Thread safe. */
bool hd_scheduler_needs_models(const char *name);
