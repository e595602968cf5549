/* SPDX-License-Identifier: Apache-2.0 */
/* A bucket of a sharded update, and the ways in which the ranks' operands and results come
 * together. The session's thread makes buckets and lists transfers, any worker adds. */
#ifndef HD_RUNTIME_ENGINE_COLLECTIVE_SHARDED_UPDATE_INTERNAL_H
#define HD_RUNTIME_ENGINE_COLLECTIVE_SHARDED_UPDATE_INTERNAL_H

#include "runtime/comm/comm.h"
#include "runtime/engine/collective/sharded_update.h"
#include "runtime/engine/submit_internal.h"

struct hd_update_ops;

/* The work on one bucket; its last task frees it. */
struct hd_update_bucket {
    struct hd_session *session;
    struct hd_session_channel *channel; /* NULL: a single rank */
    const struct hd_update_ops *ops;
    struct hd_sharded_update update;
    int index;
    int64_t lo, hi; /* its elements */
    int rounds;     /* of sync points A, and of sync points B */
    int64_t groups;
    const float **group; /* [groups]: where the operands of a shard begin, or,
                            if ops->by_host, the sum of a host's, its block of the tree */
    /* Under message passing: */
    const float **local; /* [n_local]: where the operands of this host's shards begin */
    int n_local;
    float *counts;    /* [hosts]: samples in the block of each; by halving: in the own sum, and in
                         the one that was received */
    const float **at; /* [hosts]: scratch of run_slice */
    /* Halving has these: where the own sum begins, and the one that is received. */
    float *sum, *received;
};

/* A way in which the ranks' operands and results come together. */
struct hd_update_ops {
    bool by_host; /* every host's operands are added first */
    bool pairs;   /* sync points are pairs' (struct hd_sync_point) */
    /* Bodies of tasks on a bucket: add this host's operands; add what round context->item of A
     * brought. NULL: there is no such task. */
    hd_body *add_local;
    hd_body *add_round;
    /* Adds elements [lo, hi) of all operands, at most a block, after the last A; `buffer` is a
     * block. */
    void (*add)(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum,
                float *buffer);
    float (*count)(const struct hd_update_bucket *bucket); /* the samples in all operands */
    /* List the transfers of round k of A and of B; return how many there are. NULL: memory is
     * shared. */
    int (*list_operands)(const struct hd_update_bucket *bucket, int k,
                         struct hd_comm_transfer *transfers);
    int (*list_results)(const struct hd_update_bucket *bucket, int k,
                        struct hd_comm_transfer *transfers);
    /* Returns the rank in whose area the results of `rank` are after the last B. */
    int (*find_results)(const struct hd_update_bucket *bucket, int rank);
};

enum { HD_UPDATE_TRANSFERS_MAX = 2 * HD_VIEWS_MAX > 4 ? 2 * HD_VIEWS_MAX : 4 }; /* with a partner */

/* Chooses the way of a bucket whose session, update and elements are set, and finds its operands.
 */
void hd_update_choose_way(struct hd_update_bucket *bucket);

/* Returns the elements of the bucket that `rank` does. */
struct hd_elements hd_update_get_slice(const struct hd_update_bucket *bucket, int rank);

/* Returns the place in the area of rank `rank` that `local` is in this rank's. */
void *hd_update_get_place(const struct hd_session *session, int rank, const void *local);

/* Returns whether the operands of this host need not be added. */
bool hd_update_has_single_operand(const struct hd_update_bucket *bucket);

#endif
