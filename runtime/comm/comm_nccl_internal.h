/* SPDX-License-Identifier: Apache-2.0 */
/* What comm_nccl.c, which calls NCCL, and comm_nccl_post.c, which keeps the queue, share. */
#ifndef HD_RUNTIME_COMM_COMM_NCCL_INTERNAL_H
#define HD_RUNTIME_COMM_COMM_NCCL_INTERNAL_H

#include "runtime/base/status.h"
#include "runtime/comm/comm_nccl.h"

#include <pthread.h>
#include <stdatomic.h>

/* A posted collective: its stages are queued one after the other, then its event. */
struct hd_nccl_posted {
    struct hd_nccl_collective collective;
    int64_t sequence, since_ns;
    int stage;
    void *event; /* CUDA's, as the stream is */
};

struct hd_nccl {
    struct hd_nccl_options options;
    int devices[HD_NCCL_RANKS_MAX];
    void *stream;

    pthread_mutex_t lock;  /* of all below, but for the atomics */
    struct ncclComm *comm; /* NULL: aborted */
    struct hd_nccl_posted ring[HD_NCCL_OPEN_MAX];
    int64_t posted, issued, done; /* how many so far; done <= issued <= posted */
    int64_t posted_sequence;
    atomic_int_fast64_t done_sequence;
    atomic_int status; /* the first failure */
    char why[HD_NCCL_MESSAGE_BYTES];
};

/* The n-th that was posted, if it is open. */
static inline struct hd_nccl_posted *hd_nccl_get_posted(struct hd_nccl *nccl, int64_t n)
{
    return &nccl->ring[n % HD_NCCL_OPEN_MAX];
}

/* Whether nothing has failed. */
static inline bool hd_nccl_is_ok(const struct hd_nccl *nccl)
{
    return atomic_load_explicit(&nccl->status, memory_order_acquire) == HD_OK;
}

/* Keeps the first failure; returns it. */
int hd_nccl_fail(struct hd_nccl *nccl, int status, const char *what, const char *says);

/* HD_OK, or keeps CUDA's `error`. */
int hd_nccl_check_cuda(struct hd_nccl *nccl, int error, const char *what);

/* Makes this rank's first GPU the thread's and returns what was; undoes that. */
int hd_nccl_enter(const struct hd_nccl *nccl);
void hd_nccl_leave(const struct hd_nccl *nccl, int before);

/* Whether NCCL has queued what it was last asked for; false also after a failure. */
bool hd_nccl_is_ready(struct hd_nccl *nccl);

/* Queues the next stage of a collective, which NCCL is ready for; *more_p: there was one. */
int hd_nccl_issue(struct hd_nccl *nccl, struct hd_nccl_posted *next, bool *more_p);

/* The version for reports. */
int hd_nccl_get_loaded_version(void);

#endif
