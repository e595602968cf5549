/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that collectives need: in the transport, of scratch, on a GPU. */
#include "runtime/base/alloc.h"
#include "runtime/base/tree.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/collective/collective_internal.h"

int64_t hd_collective_get_payload_bytes(const struct hd_collective *c)
{
    switch (c->kind) {
    case HD_COLLECTIVE_REDUCE:
        return hd_align_up(c->in_spec->type->reduction->bytes(c->in_spec, c->bucket));
    case HD_COLLECTIVE_BROADCAST:
        return hd_align_up(hd_collective_is_packed(c)
                               ? c->in_spec->type->reduction->bytes(c->in_spec, 0)
                               : c->in_spec->bytes);
    case HD_COLLECTIVE_COMPARE:
        return hd_align_up(c->in_spec->buckets * (int64_t)sizeof(uint64_t));
    case HD_COLLECTIVE_BARRIER:
        break;
    }
    return HD_ALIGNMENT;
}

int64_t hd_collective_get_host_scratch_bytes(const struct hd_collective *c, int ranks)
{
    int64_t partials = c->n_in > ranks ? c->n_in : ranks;
    return hd_collective_get_payload_bytes(c) * hd_tree_count_levels(partials > 0 ? partials : 1);
}

int64_t hd_collective_get_device_comm_bytes(const struct hd_collective *c, int ranks)
{
    int64_t max = 0;
    for (int bucket = 0; bucket < c->in_spec->buckets; bucket++) {
        int64_t lo, hi;
        hd_spec_get_bucket(c->in_spec, bucket, &lo, &hi);
        const int64_t bytes = hd_device_comm_get_scratch_bytes(hi - lo, ranks);
        max = bytes > max ? bytes : max;
    }
    return max + HD_DEVICE_COMM_COUNT_FLOATS * (int64_t)sizeof(float);
}
