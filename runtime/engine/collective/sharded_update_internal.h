/* SPDX-License-Identifier: Apache-2.0 */
/* A bucket of a sharded update, and the ways in which the ranks' operands and results come
 * together. The session's thread makes buckets and lists transfers, any worker adds. */
#pragma once

#include "runtime/comm/comm.h"
#include "runtime/engine/collective/sharded_update.h"
#include "runtime/engine/submit_internal.h"

/* The work on one bucket; its last task frees it. */
struct hd_update_bucket {
    struct hd_session *session;
    struct hd_session_channel *channel; /* NULL: a single rank */
    struct hd_sharded_update update;
    int index;
    int64_t lo, hi; /* its elements */
    int rounds;     /* of sync points A, and of sync points B */
    bool by_host;   /* messages are passed: every host's operands are added first */
    bool pairs;     /* by halving: sync points are pairs' (struct hd_sync_point) */
    int64_t groups;
    const float **group; /* [groups]: where the operands of a shard begin, or,
                            by host, the sum of a host's, its block of the tree */
    /* Hosts that pass messages have these: */
    const float **local; /* [n_local]: where the operands of this host's shards begin */
    int n_local;
    float *counts;    /* [hosts]: samples in the sum of each; by halving, the own one grows */
    const float **at; /* [hosts]: scratch of hd_update_add */
    /* Halving has these: where the own sum begins, and the one that is received. */
    float *sum, *received;
    struct hd_access accesses[]; /* to the values that the step touches, then to the operands */
};

/* Chooses the way of a bucket whose session, update and elements are set, and finds its operands.
 */
void hd_update_choose_way(struct hd_update_bucket *bucket);

/* Bodies of tasks on a bucket. By host, one adds this host's operands, before the first A; by
 * halving, one adds what round context->item of A brought, if it is not the last. */
hd_body hd_update_add_host, hd_update_add_half;

/* Adds elements [lo, hi) of all operands, at most a block, after the last A; `buffer` is a block.
 * The second returns the samples in them. */
void hd_update_add(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum,
                   float *buffer);
float hd_update_count(const struct hd_update_bucket *bucket);

/* List the transfers of round k of A, which bring operands, and of B, which bring results. Return
 * how many there are, at most HD_UPDATE_TRANSFERS_MAX with each partner; they cannot fail. */
enum { HD_UPDATE_TRANSFERS_MAX = 2 * HD_VIEWS_MAX > 4 ? 2 * HD_VIEWS_MAX : 4 };
int hd_update_list_operands(const struct hd_update_bucket *bucket, int k,
                            struct hd_comm_transfer *transfers);
int hd_update_list_results(const struct hd_update_bucket *bucket, int k,
                           struct hd_comm_transfer *transfers);

/* Returns the rank in whose area the results of `rank` are after the last B. */
int hd_update_find_results(const struct hd_update_bucket *bucket, int rank);

/* Returns the elements of the bucket that `rank` does. */
struct hd_elements hd_update_get_slice(const struct hd_update_bucket *bucket, int rank);

/* Returns the place in the area of rank `rank` that `local` is in this rank's. */
void *hd_update_get_place(const struct hd_session *session, int rank, const void *local);

/* Returns how many operands this host has; a single one needs no adding. */
int64_t hd_update_count_local(const struct hd_update_bucket *bucket);
