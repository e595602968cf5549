/* SPDX-License-Identifier: Apache-2.0 */
/* Submission of tasks and collectives. It returns at once, and its order is the program's: accesses
 * to a buffer happen as if tasks ran one after another in that order. Called by the session's
 * thread only. */
#pragma once

#include "runtime/engine/session.h"

#include <stdatomic.h>

/* Dependences are tracked on buffers, which stand for the memory of one instance, by buckets of its
 * partials, and have no memory themselves. */
struct hd_buffer;
struct hd_comm_transfer;
struct hd_device_collective;
struct hd_rounding;
struct hd_session_channel;

/* Creates a buffer of buckets >= 1 and partials >= 1. Returns HD_OK or HD_ERR_NOMEM. */
int hd_buffer_create(struct hd_session *session, int buckets, int64_t partials,
                     struct hd_buffer **buffer_p);
/* Waits for the tasks that use it. Accepts NULL. */
void hd_buffer_destroy(struct hd_buffer *buffer);

/* The memory of an instance, and the buffer that stands for it. */
struct hd_memory {
    void *data; /* NULL: there is none here */
    struct hd_buffer *buffer;
};

enum { HD_ALL_BUCKETS = -1, HD_ALL_PARTIALS = -1, HD_VIEWS_MAX = 16 };

struct hd_access {
    struct hd_buffer *buffer; /* NULL: none */
    int bucket;               /* or HD_ALL_BUCKETS */
    int64_t partial;          /* or HD_ALL_PARTIALS */
    enum hd_mode mode;
};

/* Counts tasks: +1 at submission, -1 at the end. */
struct hd_task_group {
    atomic_int pending;
};

/* Priorities: higher is sooner, for schedulers that know priorities. */
enum { HD_PRIORITY_LAST = -1000000, HD_PRIORITY_NORMAL = 0, HD_PRIORITY_FIRST = 1000000 };

/* The body of a task. */
typedef int hd_body(struct hd_context *context, const struct hd_view *views, const void *args);

struct hd_task {
    const char *verb; /* for totals, compared by address; both outlive the session */
    const char *name; /* for people: "adam", "snapshot policy" */
    /* May return HD_AGAIN or HD_WAITS: it is called again until it returns something else. */
    hd_body *body;
    hd_body *finish;
    /* `finish` is called after a body that succeeded, on a GPU by its thread once the work has
     * ended. Without work_buffers and headers it gets those of the body. Or NULL. */
    const void *args;          /* outlives the task */
    void *owned;               /* freed (hd_free) when the task has ended, run or not; the caller's
                                  still if it cannot be submitted; or NULL */
    struct hd_context context; /* scratch, message, logbook and timing are filled in; work, if NULL,
                                  points into scratch, at work_at */
    int64_t work_at;
    int64_t header_at; /* likewise of header */
    int home;          /* where it runs: HD_HOST, or a GPU, where it is all queued by one `body` */
    /* On a GPU: what the body queues depends on the addresses of views, args, work, header and
     * inputs alone, and on `graph`, which get_graph, unless NULL, says when the task runs; or, if
     * `key` is not NULL, on its bytes in place of args. Key is read until the task has run. */
    bool graph_capturable;
    int graph; /* HD_NO_GRAPH: nothing is queued */
    int (*get_graph)(const struct hd_context *context, const struct hd_view *views,
                     const void *args);
    const void *key;
    int key_bytes;
    hd_body *set_inputs;
    int64_t input_bytes; /* as in struct hd_gpu_verb */
    bool (*again)(const struct hd_context *context, const void *args); /* on a GPU: asked whenever
                              what the body queued has ended, whether it is to be called again, once
                              others have had a turn; or NULL */
    bool logs; /* gets logbook and timings; such tasks run in submission order */
    const struct hd_session_channel *channel; /* it is part of a collective on this channel; such
                  tasks, too, run in submission order; or NULL */
    bool background; /* lets all others pass: its body is called in slices of some milliseconds,
                  with nothing but its own accesses held in between */
    bool waits; /* on the host: a body that returns HD_WAITS leaves the worker to other tasks until
                   it is ready; without this, and in sequential sessions, the worker waits. Memory
                   of the context lasts from call to call */
    struct hd_view views[HD_VIEWS_MAX];
    int n;                            /* of views */
    const struct hd_access *accesses; /* read at submission only */
    int n_accesses;
    int priority;
    struct hd_task_group *group; /* or NULL */
    int64_t
        number; /* filled in: among what the observer was told of, from 1 on; 0: there is none */
    int64_t volume; /* of the engine's own tasks, whose time is proportional to it: bytes that they
                       read and write; 0: unknown. Recorders read it */
};

/* From hd_fuse_begin on, tasks of the GPU `home` whose work can be recorded are collected, and each
 * run of them, until something else is submitted or waited for or hd_fuse_end is called, becomes
 * one StarPU task named `name`, whose work is launched at once. A sequential session runs them one
 * by one. Fusing does not nest, but may begin again, and is the same then. hd_fuse_begin returns
 * whether tasks are collected already; hd_fuse_end HD_OK, or HD_ERR_NOMEM or HD_ERR_SYSTEM
 * (logged). */
bool hd_fuse_begin(struct hd_session *session, int home, const char *name);
int hd_fuse_end(struct hd_session *session);

/* Submits a copy of *task. Returns HD_OK, HD_ERR_NOMEM, or HD_ERR_SYSTEM or HD_ERR_DEVICE (logged);
 * errors of the body are latched by the session instead. */
int hd_submit_task(struct hd_session *session, const struct hd_task *task);

/* Channels [first, first + n) of the communicator, over which buckets go in turns, beginning with
 * the one that has number `offset` of them. */
struct hd_channels {
    int first, n, offset;
};
static inline int hd_channels_choose(const struct hd_channels *channels, int bucket)
{
    return channels->n > 0 ? channels->first + (channels->offset + bucket) % channels->n : 0;
}

enum hd_collective_kind {
    HD_COLLECTIVE_REDUCE,    /* all instances combined in the fixed tree */
    HD_COLLECTIVE_BROADCAST, /* the bytes of rank 0's instance in[0] */
    HD_COLLECTIVE_BARRIER,
    HD_COLLECTIVE_COMPARE /* hash of every bucket of in[0], equal on all ranks or HD_ERR_DIVERGED */
};

struct hd_collective {
    const char *verb, *name; /* as in hd_task */
    enum hd_collective_kind kind;
    enum hd_combine how;
    const struct hd_spec *in_spec, *out_spec;
    int n_in; /* instances of this rank, in shard order; 0 between GPUs: `out` has their sum */
    const struct hd_memory *in; /* [n_in] */
    struct hd_memory out;       /* its data NULL: none on this rank */
    /* A REDUCE of a flat type with weights, on the host: all nodes of the tree over the instances,
     * and the mean, are rounded so (rounded.c). NULL: nothing is. */
    const struct hd_rounding *rounding;
    const struct hd_memory *residuals; /* [n_in]: floats that are added to each instance's sum
                                          before it is rounded, and become what that took; NULL:
                                          none */
    int home;    /* of this memory. The first GPU: for a REDUCE of a type with reduce_on_gpu, among
                    several ranks with a session that has a device comm */
    bool alone;  /* a REDUCE of this rank's instances only: by one task, on any GPU, too */
    int bucket;  /* of flat values; else 0 */
    int channel; /* of the communicator (modulo those that it has). Between GPUs there is one order,
                    whatever the channels */
    int64_t iteration;
    int priority;
    struct hd_task_group *group;
};

/* Submits a copy of *c and its arrays. Every rank must submit the same collectives in the same
 * order; those of a channel run in that order. Returns HD_OK, or HD_ERR_NOMEM or HD_ERR_SYSTEM, by
 * which the session has failed and everything submitted has ended. */
int hd_submit_collective(struct hd_session *session, const struct hd_collective *c);

/* Return the bytes that a collective puts into the transport, and the bytes of scratch that it
 * needs on a rank of n_in instances among `ranks`. */
int64_t hd_collective_get_payload_bytes(const struct hd_collective *c);
int64_t hd_collective_get_host_scratch_bytes(const struct hd_collective *c, int ranks);

/* Returns the bytes on the GPU that a collective between GPUs needs in the session
 * (device_comm_bytes). */
int64_t hd_collective_get_device_comm_bytes(const struct hd_collective *c, int ranks);

/* At a sync point, the channel and `accesses` are held until all ranks have arrived at `sequence`.
 */
struct hd_sync_point {
    const char *name;
    struct hd_session_channel *channel;
    int64_t sequence, iteration;
    const struct hd_access *accesses; /* read at submission only */
    int n_accesses;
    int priority;
    struct hd_task_group *group;
    const struct hd_device_collective
        *device_collective;                   /* the device comm runs it meanwhile; or NULL */
    const struct hd_comm_transfer *transfers; /* [n_transfers], as hd_comm_post takes them */
    int n_transfers;
    bool on_host; /* only the ranks of this host wait for each other */
    bool pairs;   /* this rank waits for its transfers only */
    void *owned;  /* freed with it, as of tasks */
};

/* A recorder is told of what a session would submit to StarPU, in that order, by the session's
 * thread: tasks, sync points, and where the submitter waits until a group has ended. What it is
 * given is valid during the call. The functions return HD_OK, or an error that the submission then
 * returns. */
struct hd_recorder {
    int (*task)(struct hd_recorder *recorder, const struct hd_task *task);
    int (*sync)(struct hd_recorder *recorder, const struct hd_sync_point *point);
    int (*wait)(struct hd_recorder *recorder, const struct hd_task_group *group);
};

/* Tells the observer, if there is one, that the submitter waits for a group. Returns HD_OK or the
 * observer's error. */
int hd_session_observe_wait(struct hd_session *session, const struct hd_task_group *group);

/* Returns a number of a sync point that no other has, of any channel; the same on all ranks. */
int64_t hd_sync_point_get_number(const struct hd_sync_point *point);

/* Return the buckets and partials of a buffer, which a recorder finds in accesses. */
int hd_buffer_count_buckets(const struct hd_buffer *buffer);
int64_t hd_buffer_count_partials(const struct hd_buffer *buffer);
