/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory between ranks, by NCCL on a stream of its own. libnccl.so.2 is loaded
 * when it is first asked for, so programs without GPU ranks do without it; a build without CUDA
 * answers HD_ERR_UNSUPPORTED.
 *
 * A collective is posted once its inputs are there (work that made them has ended, or was waited
 * for on their device), and is over when hd_nccl_test says so; nothing blocks in between. Whoever
 * calls hd_nccl_test drives it: NCCL may need several calls until it has queued something, and a
 * collective of several stages queues one after the other. All ranks post the same collectives in
 * the same order.
 *
 * Slices: rank r of R works on slice r of a part: whole blocks of HD_BLOCK elements, as even as can
 * be (hd_nccl_get_slice). Order of sums:
 *   HD_NCCL_SCATTER  every rank sends every other its slice of this rank's terms, then `add` adds
 *                    the R terms of the own slice: in tree order over the ranks, hence, if every
 *                    rank's terms are its node of the tree, to the bit as one rank would
 *   HD_NCCL_TREE     the same, then every rank gets every slice
 *   HD_NCCL_FAST     NCCL's own order, which depends on its version, the machine and the sizes
 *
 * Threads: any thread; posts follow one another (an executor orders them by a token), destroy comes
 * last. A thread's current CUDA device is kept if it is one of this rank's; a thread that had none
 * is left at this rank's first, so no call touches a GPU of another rank. */
#ifndef HD_RUNTIME_COMM_COMM_NCCL_H
#define HD_RUNTIME_COMM_COMM_NCCL_H

#include "runtime/base/hash.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/value.h"

#include <stddef.h>

struct hd_comm;
struct hd_nccl;

enum {
    HD_NCCL_ID_BYTES = 128,
    HD_NCCL_OLDEST = 21800,     /* 2.18: the first whose non-blocking communicators are complete */
    HD_NCCL_ARRAYS = 4,         /* most arrays of one gather */
    HD_NCCL_RANKS_MAX = 64,     /* most operands that one sum has */
    HD_NCCL_OPEN_MAX = 8,       /* most collectives posted and not over */
    HD_NCCL_COUNT_FLOATS = 16,  /* room of a count, so that slices stay aligned */
    HD_NCCL_MESSAGE_BYTES = 512 /* a sentence about a failure, with its zero */
};

struct hd_nccl_options {
    int rank, ranks;
    const int *devices; /* CUDA's numbers of this rank's GPUs; [0] takes part. Read at creation */
    int n_devices;
    int64_t timeout_ns; /* of the meeting; 0: 40 s, less than the rendezvous's patience */
    /* NULL, or where every post is announced (hd_comm_arrive) and waited for (hd_comm_test) under
     * the same number, so that reports name late ranks and both may share one numbering. Borrowed.
     */
    struct hd_comm *comm;
};

/* The version of the library, 22809 for 2.28.9. Loads it. Errors: HD_ERR_UNSUPPORTED (logged) when
 * there is none, or an older one than HD_NCCL_OLDEST. */
int hd_nccl_get_version(int *version_p);

/* A new communicator's name, made by rank 0 and told to all. Errors: HD_ERR_UNSUPPORTED,
 * HD_ERR_DEVICE (logged). */
int hd_nccl_make_unique_id(unsigned char id[HD_NCCL_ID_BYTES]);

/* Meets the other ranks of `id`, polling until all are there. Environment that NCCL reads
 * (hd_nccl_share_gpus) is set before. Errors (logged): HD_ERR_UNSUPPORTED, HD_ERR_DEVICE for what
 * CUDA or NCCL say, HD_ERR_PEER when not all came in time. */
int hd_nccl_create(const struct hd_nccl_options *options, const unsigned char id[HD_NCCL_ID_BYTES],
                   struct hd_nccl **nccl_p);

/* The same by the rendezvous, on all ranks at its place among broadcasts: rank 0 makes the
 * id; all succeed or all fail, with one sentence. Errors: as above and those of
 * hd_rendezvous_agree. */
int hd_nccl_join(const struct hd_nccl_options *options, struct hd_rendezvous *rendezvous,
                 struct hd_nccl **nccl_p);

/* Says goodbye in order, waiting some seconds at most; after a failure, or when something is still
 * open, aborts instead. Accepts NULL. */
void hd_nccl_destroy(struct hd_nccl *nccl);

/* Ends all that is under way on these communicators (NULLs are passed over), in one NCCL group: one
 * by one, the first could wait for another's kernel. Nothing ends well afterwards: post refuses,
 * test stays false, hd_nccl_get_error says HD_ERR_PEER. Other ranks are not told. Any thread. */
void hd_nccl_abort(struct hd_nccl *const *nccls, int n);

/* -- Collectives ------------------------------------------------------------------------------- */

enum hd_nccl_kind {
    HD_NCCL_SCATTER,  /* to[own slice] = sum over ranks of terms; total = sum of counts */
    HD_NCCL_GATHER,   /* data[i][slice r] of rank r becomes everybody's, in place */
    HD_NCCL_TREE,     /* both: `to` whole */
    HD_NCCL_FAST,     /* the same numbers but for rounding */
    HD_NCCL_BROADCAST /* data[0] of rank 0 becomes everybody's, in place */
};

struct hd_nccl_collective {
    enum hd_nccl_kind kind;
    const char *name; /* for reports; outlives the collective */
    int64_t n;        /* elements of the part; of a broadcast: bytes */

    /* Sums. Device memory; none overlap, except that `to` may be `operands`. */
    const float *operands; /* [n] of this rank */
    const float *count;    /* how many samples are in them; or NULL */
    float *to;             /* [n]; HD_NCCL_SCATTER writes the own slice alone */
    float *total;          /* the sum of counts; not NULL where `count` is not */
    float *scratch;        /* hd_nccl_get_scratch_bytes; HD_NCCL_FAST needs none */

    /* Queues, on `stream` of devices[0]: to[i] = operands[0].floats[i] + …, i < n (at least 1),
     * and, if `total` is not NULL, *total = the sum of the counts, in tree order over n_operands
     * (runtime/base/tree.h); where there are counts, more than 0 together, it may divide the one by
     * the other. operands[] is host memory, valid for the call. `to` may be an operand. Where a
     * slice is empty, the counts alone are added by it, as floats without counts; HD_NCCL_FAST has
     * a single operand, `to` itself, and no `total`; NULL: nothing is left to do there. Returns a
     * status; allocates and waits for nothing. */
    int (*add)(const void *arg, const struct hd_operand *operands, int n_operands, int64_t n,
               float *to, float *total, void *stream);
    const void *arg; /* outlives the collective */

    void *data[HD_NCCL_ARRAYS]; /* gather: floats, [n] each; broadcast: one, n bytes */
    int n_data;
};

/* Elements [*lo_p, *hi_p) of 0 … n that `rank` works on. */
static inline void hd_nccl_get_slice(int64_t n, int rank, int ranks, int64_t *lo_p, int64_t *hi_p)
{
    const int64_t blocks = (n + HD_BLOCK - 1) / HD_BLOCK;
    const int64_t lo = blocks * rank / ranks * HD_BLOCK;
    const int64_t hi = blocks * (rank + 1) / ranks * HD_BLOCK;
    *lo_p = lo < n ? lo : n;
    *hi_p = hi < n ? hi : n;
}

/* Device memory that HD_NCCL_SCATTER and HD_NCCL_TREE of n elements need besides: a slice of every
 * rank's. */
int64_t hd_nccl_get_scratch_bytes(int64_t n, int ranks);

/* Posts a copy of *collective as number `sequence`, greater than all before. Never blocks. Errors:
 * HD_ERR_INPUT (logged) for what no caller should ask; else those of hd_nccl_get_error (silently).
 */
int hd_nccl_post(struct hd_nccl *nccl, int64_t sequence,
                 const struct hd_nccl_collective *collective);

/* Makes progress; whether all collectives up to `sequence` are over on this rank's GPU (and, with a
 * comm, posted on all ranks). False for good after a failure. Cheap, never blocks. */
bool hd_nccl_test(struct hd_nccl *nccl, int64_t sequence);

/* Waits for `sequence`: spins, then naps. timeout_ns 0: no limit. `cancelled` (may be NULL) is
 * asked between polls. Returns HD_OK; HD_ERR_WATCHDOG after timeout_ns (logged with hd_nccl_report
 * and hd_comm_report); HD_ERR_STOPPED when cancelled, HD_ERR_PEER when another rank aborted the
 * comm, and what hd_nccl_get_error says (all silently). */
int hd_nccl_wait(struct hd_nccl *nccl, int64_t sequence, int64_t timeout_ns,
                 bool (*cancelled)(void *arg), void *arg);

/* HD_OK, or what went wrong with a sentence in text[bytes]: HD_ERR_PEER when another rank is gone
 * or this one aborted, HD_ERR_DEVICE for all else. Asks NCCL, so the watchdog's rounds find what no
 * test would. */
int hd_nccl_get_error(struct hd_nccl *nccl, char *text, size_t bytes);

/* One line for hang reports: "GPU 0 of rank 1 is in #412 mean(grad.3) since 31 s (waits for the
 * others; NCCL 2.28.9 reports no error)". */
void hd_nccl_report(struct hd_nccl *nccl, char *text, size_t bytes);

#endif
