/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective_internal.h"

enum { TWO_STEP_BYTES = 1 << 16 }; /* bytes: below, a second step costs more than it saves */

/* Vectors of types with a weight are floats that are added one by one. */
bool hd_message_is_two_step(const struct hd_comm *comm, const struct hd_collective *c)
{
    return hd_comm_is_message_passing(comm) && c->kind == HD_COLLECTIVE_REDUCE &&
           c->in_spec->type->flat && c->in_spec->type->weight &&
           hd_collective_get_payload_bytes(c) >= TWO_STEP_BYTES;
}

/* Floats of the vector that `rank` adds: whole cache lines, as even as can be. */
struct slice {
    int64_t lo, n;
};

static struct slice slice_of(const struct hd_collective *c, int rank, int ranks)
{
    enum { LINE = 16 };
    const int64_t lines = hd_collective_get_payload_bytes(c) / (int64_t)sizeof(float) / LINE;
    const int64_t lo = lines * rank / ranks, hi = lines * (rank + 1) / ranks;
    return (struct slice){lo * LINE, (hi - lo) * LINE};
}

void hd_message_add_slice(struct hd_comm *comm, const struct hd_collective *c, int64_t sequence,
                          const float **addends)
{
    const int rank = hd_comm_get_rank(comm), ranks = hd_comm_count_ranks(comm);
    const struct slice self = slice_of(c, rank, ranks);
    for (int r = 0; r < ranks; r++)
        addends[r] = hd_comm_get_buffer(comm, r, sequence);
    hd_tree_add(ranks, addends, 1, 0, self.lo, self.lo + self.n,
                (float *)hd_comm_get_buffer(comm, rank, sequence + 1) + self.lo);
}

static struct hd_comm_transfer make_slice_transfer(int rank, bool out, void *vector,
                                                   struct slice slice)
{
    return (struct hd_comm_transfer){rank, out, (float *)vector + slice.lo,
                                     slice.n * (int64_t)sizeof(float)};
}

/* Step 0 sends a rank its slice of this rank's vector, step 1 this rank's slice of the sum, which
 * all ranks put together in their own buffers. */
static void list_slice_transfers(struct hd_comm *comm, const struct hd_collective *c,
                                 int64_t sequence, int step, int rank,
                                 struct hd_comm_transfer *transfers)
{
    const int self = hd_comm_get_rank(comm), ranks = hd_comm_count_ranks(comm);
    const struct slice local = slice_of(c, self, ranks), remote = slice_of(c, rank, ranks);
    void *here = hd_comm_get_buffer(comm, self, sequence);
    void *there = hd_comm_get_buffer(comm, rank, sequence);
    transfers[0] = make_slice_transfer(rank, true, here, step == 0 ? remote : local);
    transfers[1] = step == 0 ? make_slice_transfer(rank, false, there, local)
                             : make_slice_transfer(rank, false, here, remote);
}

/* Lists the transfers with `rank`, by which all get rank 0's vector, or every rank every other's.
 * Returns how many there are. */
static int list_whole_transfers(struct hd_comm *comm, const struct hd_collective *c,
                                int64_t sequence, int rank, struct hd_comm_transfer *transfers)
{
    const int self = hd_comm_get_rank(comm);
    const bool from_root = c->kind == HD_COLLECTIVE_BROADCAST;
    const int64_t bytes = hd_collective_get_payload_bytes(c);
    int n = 0;
    if (!from_root || self == 0)
        transfers[n++] =
            (struct hd_comm_transfer){rank, true, hd_comm_get_buffer(comm, self, sequence), bytes};
    if (!from_root || rank == 0)
        transfers[n++] =
            (struct hd_comm_transfer){rank, false, hd_comm_get_buffer(comm, rank, sequence), bytes};
    return n;
}

int hd_message_list_transfers(struct hd_comm *comm, const struct hd_collective *c, int step,
                              struct hd_sync_point *point)
{
    if (!hd_comm_is_message_passing(comm) || c->kind == HD_COLLECTIVE_BARRIER)
        return HD_OK;
    const int ranks = hd_comm_count_ranks(comm);
    struct hd_comm_transfer *transfers = hd_alloc(2 * ranks, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    int n = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (rank == hd_comm_get_rank(comm))
            continue;
        if (step == HD_MESSAGE_WHOLE) {
            n += list_whole_transfers(comm, c, point->sequence, rank, transfers + n);
        } else {
            list_slice_transfers(comm, c, point->sequence, step, rank, transfers + n);
            n += 2;
        }
    }
    point->transfers = point->owned = transfers;
    point->n_transfers = n;
    return HD_OK;
}
