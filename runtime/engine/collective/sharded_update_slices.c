/* SPDX-License-Identifier: Apache-2.0 */
/* This says where the slices of buckets are. */
#include "runtime/base/hash.h"
#include "runtime/engine/collective/sharded_update_internal.h"

void *hd_update_get_place(const struct hd_session *session, int rank, const void *local)
{
    if (session->options.ranks == 1)
        return (void *)local;
    return hd_comm_get_area(session->options.comm, rank) +
           ((const char *)local - hd_session_get_area(session));
}

struct hd_elements hd_sharded_update_get_slice(const struct hd_session *session,
                                               const struct hd_spec *spec, int bucket, int rank)
{
    const int ranks = session->options.ranks;
    const int slice = ranks == 1 ? 0 : hd_halving_get_slice(session->options.comm, rank);
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return hd_halving_cut(lo, hi, HD_BLOCK, (struct hd_slices){slice, slice + 1}, ranks);
}

struct hd_elements hd_update_get_slice(const struct hd_update_bucket *bucket, int rank)
{
    return hd_sharded_update_get_slice(bucket->session, bucket->update.operands, bucket->index,
                                       rank);
}
