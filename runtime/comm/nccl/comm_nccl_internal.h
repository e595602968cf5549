/* SPDX-License-Identifier: Apache-2.0 */
/* Three files make the communicator: comm_nccl.c calls the library, comm_nccl_post.c keeps the
 * queue of posted collectives, comm_nccl_join.c brings the ranks together.
 *
 * Threads: whoever calls a function with a struct hd_nccl holds its lock, except where it says
 * otherwise; hd_nccl_is_ok needs none. */
#pragma once

#include "runtime/base/status.h"
#include "runtime/comm/nccl/comm_nccl.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HD_NCCL_ID_BYTES = 128 };

/* A posted collective: its stages are queued one after the other, then its event. */
struct hd_nccl_posted {
    struct hd_device_collective collective;
    int64_t sequence, since_ns;
    int stage;
    void *event; /* CUDA's, as the stream is */
};

struct hd_nccl {
    struct hd_device_comm base;
    struct hd_nccl_options options;
    int devices[HD_DEVICE_COMM_RANKS_MAX];
    void *stream;

    pthread_mutex_t lock;  /* of all below, but for the atomics */
    struct ncclComm *comm; /* NULL: aborted */
    struct hd_nccl_posted ring[HD_DEVICE_COMM_OPEN_MAX];
    int64_t posted, issued, done; /* how many so far; done <= issued <= posted */
    int64_t posted_sequence;
    atomic_int_fast64_t done_sequence;
    atomic_int status; /* the first failure */
    char why[HD_DEVICE_COMM_MESSAGE_BYTES];
};

/* Returns the n-th that was posted, if it is open. */
static inline struct hd_nccl_posted *hd_nccl_get_posted(struct hd_nccl *nccl, int64_t n)
{
    return &nccl->ring[n % HD_DEVICE_COMM_OPEN_MAX];
}

/* Returns whether nothing has failed. */
static inline bool hd_nccl_is_ok(const struct hd_nccl *nccl)
{
    return atomic_load_explicit(&nccl->status, memory_order_acquire) == HD_OK;
}

/* Returns HD_OK, or keeps CUDA's `error` as a failure and returns the first one's status. */
int hd_nccl_check_cuda(struct hd_nccl *nccl, int error, const char *what);

/* enter makes this rank's first GPU the thread's and returns CUDA's number of the one before, -1 if
 * there is an error; leave goes back to it. */
int hd_nccl_enter(const struct hd_nccl *nccl);
void hd_nccl_leave(const struct hd_nccl *nccl, int before);

/* Returns whether NCCL has queued what it was last asked for; false also after a failure. */
bool hd_nccl_is_ready(struct hd_nccl *nccl);

/* Queues the next stage of a collective, which NCCL is ready for; *more_p: there was one. Returns
 * HD_OK or the status of the first failure (kept, not logged). */
int hd_nccl_issue(struct hd_nccl *nccl, struct hd_nccl_posted *next, bool *more_p);

/* Loads the library; NULL, or a sentence that says why there is none. Any thread. */
const char *hd_nccl_load(void);

/* Returns the version of the library (no status); 0: it is not loaded. Any thread. */
int hd_nccl_get_loaded_version(void);

/* Makes the name of a new communicator. Returns HD_OK, or HD_ERR_DEVICE with a sentence in
 * why[HD_DEVICE_COMM_MESSAGE_BYTES]. One thread at a time. */
int hd_nccl_make_id(unsigned char id[HD_NCCL_ID_BYTES], char *why);

/* Makes the stream and the events and joins the other ranks of `id`. Returns HD_OK, or
 * HD_ERR_DEVICE or HD_ERR_PEER, kept as a failure. One thread at a time. */
int hd_nccl_connect(struct hd_nccl *nccl, const unsigned char id[HD_NCCL_ID_BYTES]);

/* The operations of a device comm that are not the queue's; they take the lock themselves. */
void hd_nccl_abort(struct hd_device_comm *device_comm);
void hd_nccl_destroy(struct hd_device_comm *device_comm);

extern const struct hd_device_comm_ops hd_nccl_ops;
