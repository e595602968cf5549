/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory between ranks with one GPU each. A device comm is a table of operations
 * that a library fills in (comm_nccl.h).
 *
 * A collective is posted once its inputs are there (the work that made them has ended, or was
 * waited for on their device), and has ended when hd_device_comm_test says so; nothing blocks in
 * between. Whoever calls hd_device_comm_test drives it: the library may need several calls until it
 * has queued something, and a collective of several stages queues one after the other. All ranks
 * post the same collectives in the same order.
 *
 * Rank r of R works on slice r of the n elements: whole blocks of HD_BLOCK elements, as even as can
 * be (hd_device_comm_get_slice).
 *
 * Threads: any thread makes these calls. Posts follow one another (an executor orders them by a
 * token), and destroy comes last. A thread's current CUDA device is kept if it is one of this
 * rank's; a thread that had none is left at this rank's first, so no call touches a GPU of another
 * rank. */
#pragma once

#include "runtime/base/hash.h"
#include "runtime/value.h"

#include <stddef.h>

struct hd_comm;

enum {
    HD_DEVICE_COMM_RANKS_MAX = 64,      /* operands of one sum */
    HD_DEVICE_COMM_OPEN_MAX = 8,        /* collectives posted and not ended */
    HD_DEVICE_COMM_COUNT_FLOATS = 16,   /* capacity for a count, so that slices stay aligned */
    HD_DEVICE_COMM_MESSAGE_BYTES = 512, /* a sentence about a failure, with its zero */
};

enum hd_device_collective_kind {
    /* to = sum over ranks of operands, total = sum of counts. Every rank sends every other its
     * slice of this rank's operands, then `add` adds the R operands of the own slice in tree order
     * over the ranks, then all send their slices of `to`. If every rank's operands are its node of
     * the tree, the sum equals to the bit that of a single rank. */
    HD_DEVICE_ALL_REDUCE_TREE,
    HD_DEVICE_ALL_REDUCE_LIBRARY /* adds in the library's own order, which depends on its version,
                                     the machine and the sizes */
};

struct hd_device_collective {
    enum hd_device_collective_kind kind;
    const char *name; /* for reports; outlives the collective */
    int64_t n;        /* elements */
    /* Device memory; none overlap, except that `to` may be `operands`. */
    const float *operands; /* [n] of this rank */
    const float *count;    /* how many samples are in them; or NULL */
    float *to;             /* [n] */
    float *total;          /* the sum of counts; not NULL where `count` is not */
    float *scratch;        /* hd_device_comm_get_scratch_bytes; sums in tree order need it */

    /* Queues, on `stream` of this rank's GPU: to[i] = operands[0].floats[i] + …, i < n (at least
     * 1), and, if `total` is not NULL, *total = the sum of the counts, in tree order over
     * n_operands (runtime/base/tree.h); where there are counts, more than 0 together, it may divide
     * the one by the other. operands[] is host memory, valid for the call. `to` may be an operand.
     * Where a slice is empty, the counts alone are added by it, as floats without counts;
     * HD_DEVICE_ALL_REDUCE_LIBRARY has a single operand, `to` itself, and no `total`; NULL: nothing
     * is left to do there. Returns a status; allocates nothing and does not wait. */
    int (*add)(const void *arg, const struct hd_operand *operands, int n_operands, int64_t n,
               float *to, float *total, void *stream);
    const void *arg; /* outlives the collective */
};

struct hd_device_comm {
    const struct hd_device_comm_ops *ops;
    /* NULL, or the ranks' communicator, and its channel where every post is announced
     * (hd_channel_arrive) and waited for (hd_channel_test) under the same number, so that reports
     * name late ranks and both may share one numbering. Borrowed. */
    struct hd_comm *comm;
    struct hd_channel *channel;
};

/* The operations behind the functions below that have their names. */
struct hd_device_comm_ops {
    int (*post)(struct hd_device_comm *device_comm, int64_t sequence,
                const struct hd_device_collective *collective);
    bool (*test)(struct hd_device_comm *device_comm, int64_t sequence);
    int (*get_error)(struct hd_device_comm *device_comm, char *text, size_t bytes);
    void (*report)(struct hd_device_comm *device_comm, char *text, size_t bytes);
    void (*abort)(struct hd_device_comm *device_comm);
    void (*destroy)(struct hd_device_comm *device_comm);
};

/* Leaves in order, waiting some seconds at most; after a failure, or when something is still open,
 * aborts instead. Accepts NULL. */
static inline void hd_device_comm_destroy(struct hd_device_comm *device_comm)
{
    if (device_comm)
        device_comm->ops->destroy(device_comm);
}

/* Ends all that is under way. Nothing ends well afterwards: post refuses, test stays false,
 * get_error returns HD_ERR_PEER. Other ranks are not told. */
static inline void hd_device_comm_abort(struct hd_device_comm *device_comm)
{
    device_comm->ops->abort(device_comm);
}

/* Posts a copy of *collective as number `sequence`, greater than all before. Never blocks. Returns
 * HD_OK; HD_ERR_INPUT (logged) for a collective that no caller should ask for; else the status of
 * hd_device_comm_get_error (not logged). */
static inline int hd_device_comm_post(struct hd_device_comm *device_comm, int64_t sequence,
                                      const struct hd_device_collective *collective)
{
    return device_comm->ops->post(device_comm, sequence, collective);
}

/* Makes progress, and returns whether all collectives up to `sequence` have ended on this rank's
 * GPU (and, with a comm, are posted on all ranks). False for good after a failure. Never blocks. */
static inline bool hd_device_comm_test(struct hd_device_comm *device_comm, int64_t sequence)
{
    return device_comm->ops->test(device_comm, sequence);
}

/* Waits for `sequence`: spins, then naps. timeout_ns 0: no limit. `cancelled` (may be NULL) is
 * asked between polls. Returns HD_OK; HD_ERR_WATCHDOG after timeout_ns (logged with the reports of
 * both comms); HD_ERR_STOPPED when cancelled, HD_ERR_PEER when another rank aborted the comm, and
 * the status of hd_device_comm_get_error (these are not logged). */
int hd_device_comm_wait(struct hd_device_comm *device_comm, int64_t sequence, int64_t timeout_ns,
                        bool (*cancelled)(void *arg), void *arg);

/* Returns HD_OK, or the first failure with a sentence in text[bytes]: HD_ERR_PEER when another rank
 * is gone or this one aborted, HD_ERR_DEVICE for all else. Asks the library, so the watchdog's
 * rounds find what no test would. */
static inline int hd_device_comm_get_error(struct hd_device_comm *device_comm, char *text,
                                           size_t bytes)
{
    return device_comm->ops->get_error(device_comm, text, bytes);
}

/* Writes one line for hang reports: "GPU 0 of rank 1 is in #412 mean(grad.3) since 31 s (waits for
 * the others; NCCL 2.28.9 reports no error)". */
static inline void hd_device_comm_report(struct hd_device_comm *device_comm, char *text,
                                         size_t bytes)
{
    device_comm->ops->report(device_comm, text, bytes);
}

/* Stores the elements [*lo_p, *hi_p) of 0 … n that `rank` works on. */
static inline void hd_device_comm_get_slice(int64_t n, int rank, int ranks, int64_t *lo_p,
                                            int64_t *hi_p)
{
    const int64_t blocks = (n + HD_BLOCK - 1) / HD_BLOCK;
    const int64_t lo = blocks * rank / ranks * HD_BLOCK;
    const int64_t hi = blocks * (rank + 1) / ranks * HD_BLOCK;
    *lo_p = lo < n ? lo : n;
    *hi_p = hi < n ? hi : n;
}

/* Returns the distance in floats from one rank's slice to the next in a sum's scratch; the last
 * HD_DEVICE_COMM_COUNT_FLOATS of each are for its count. */
static inline int64_t hd_device_comm_get_stride(int64_t n, int ranks)
{
    const int64_t blocks = (n + HD_BLOCK - 1) / HD_BLOCK;
    return (blocks + ranks - 1) / ranks * HD_BLOCK + HD_DEVICE_COMM_COUNT_FLOATS;
}

/* Returns the bytes of device memory that a sum of n elements in tree order needs besides: a slice
 * from every rank. */
static inline int64_t hd_device_comm_get_scratch_bytes(int64_t n, int ranks)
{
    return ranks * hd_device_comm_get_stride(n, ranks) * (int64_t)sizeof(float);
}
