/* SPDX-License-Identifier: Apache-2.0 */
/* This says where the slices of buckets are. */
#include "runtime/base/hash.h"
#include "runtime/engine/collective/halving.h"
#include "runtime/engine/collective/sharded_update_internal.h"

void *hd_update_get_place(const struct hd_session *session, int rank, const void *local)
{
    if (session->options.ranks == 1)
        return (void *)local;
    return hd_comm_get_area(session->options.comm, rank) +
           ((const char *)local - hd_session_get_area(session));
}

int hd_sharded_update_get_number(const struct hd_session *session, int rank)
{
    return session->options.ranks == 1 ? 0 : hd_halving_get_slice(session->options.comm, rank);
}

void hd_sharded_update_get_slice(int64_t lo, int64_t hi, int number, int n, int64_t *lo_p,
                                 int64_t *hi_p)
{
    const int64_t blocks = (hi - lo + HD_BLOCK - 1) / HD_BLOCK;
    const int64_t from = lo + blocks * number / n * HD_BLOCK;
    const int64_t to = lo + blocks * (number + 1) / n * HD_BLOCK;
    *lo_p = from < hi ? from : hi;
    *hi_p = to < hi ? to : hi;
}

void hd_update_get_slice(const struct hd_update_bucket *bucket, int rank, int64_t *lo_p,
                         int64_t *hi_p)
{
    hd_sharded_update_get_slice(bucket->lo, bucket->hi,
                                hd_sharded_update_get_number(bucket->session, rank),
                                bucket->session->options.ranks, lo_p, hi_p);
}
