/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/collective_internal.h"

#include <math.h>

/* -- The choice -------------------------------------------------------------------------------- */

/* Estimates the seconds that a way takes among hosts with `ranks` ranks each, from what a sync
 * point, a further message, a step within a host and a byte on a host's link cost. They are those
 * of an ordinary cluster, whose links of 10 Gbit/s others use as well; what matters is how they
 * compare. */
static double estimate(enum hd_message_way way, double hosts, double rounds, double ranks,
                       double bytes)
{
    static const double sync_s = 30e-6, message_s = 5e-6, step_s = 20e-6, byte_s = 2e-9;
    const double local_s = ranks > 1 ? step_s : 0;
    switch (way) {
    case HD_MESSAGE_ALL:
        return sync_s + (hosts - 1) * (message_s + ranks * bytes * byte_s);
    case HD_MESSAGE_SLICES:
        return local_s + step_s + 2 * (sync_s + (hosts - 1) * (message_s + bytes / hosts * byte_s));
    case HD_MESSAGE_PAIRS:
        return 2 * local_s + rounds * (sync_s + message_s + step_s + bytes * byte_s);
    }
    return 0;
}

/* Vectors of types with a weight are floats that are added one by one, so they can be cut. */
static bool may_slice(const struct hd_comm *comm, const struct hd_collective *c)
{
    enum { LINE_BYTES = 64 };
    return c->kind == HD_COLLECTIVE_REDUCE && c->in_spec->type->flat && c->in_spec->type->weight &&
           hd_collective_get_payload_bytes(c) >= LINE_BYTES * hd_comm_count_ranks(comm);
}

static bool may_pair(const struct hd_comm *comm, const struct hd_collective *c)
{
    return c->kind == HD_COLLECTIVE_REDUCE &&
           1 << hd_message_count_rounds(comm) == hd_comm_count_hosts(comm);
}

enum hd_message_way hd_message_choose(const struct hd_session_options *options,
                                      const struct hd_collective *c)
{
    const struct hd_comm *comm = options->comm;
    const int hosts = hd_comm_count_hosts(comm), ranks = hd_comm_count_host_ranks(comm);
    const double bytes = (double)hd_collective_get_payload_bytes(c);
    const bool pairs = may_pair(comm, c) && options->exchange != HD_EXCHANGE_DIRECT;
    const bool allowed[] = {true, may_slice(comm, c), pairs};
    enum hd_message_way best = HD_MESSAGE_ALL;
    double best_s = INFINITY;
    if (hosts == 1)
        return HD_MESSAGE_ALL;
    if (pairs && options->exchange == HD_EXCHANGE_PAIRS)
        return HD_MESSAGE_PAIRS;
    for (int i = HD_MESSAGE_ALL; i <= (int)HD_MESSAGE_PAIRS; i++) {
        const enum hd_message_way way = (enum hd_message_way)i;
        const double seconds = estimate(way, hosts, hd_message_count_rounds(comm), ranks, bytes);
        if (allowed[way] && seconds < best_s) {
            best = way;
            best_s = seconds;
        }
    }
    return best;
}

/* -- Pairs ------------------------------------------------------------------------------------- */

bool hd_message_is_courier(const struct hd_comm *comm)
{
    return hd_comm_get_rank(comm) == hd_comm_get_first_rank(comm);
}

int hd_message_count_rounds(const struct hd_comm *comm)
{
    int rounds = 0;
    while (2 << rounds <= hd_comm_count_hosts(comm))
        rounds++;
    return rounds;
}

int hd_message_get_pair(const struct hd_comm *comm, int k)
{
    return (hd_comm_get_host(comm) ^ 1 << k) * hd_comm_count_host_ranks(comm);
}

/* -- Slices ------------------------------------------------------------------------------------ */

/* Floats of the vector that `rank` adds: whole cache lines, as even as can be. */
struct slice {
    int64_t lo, n;
};

static struct slice slice_of(const struct hd_comm *comm, const struct hd_collective *c, int rank)
{
    enum { LINE = 16 };
    const int ranks = hd_comm_count_ranks(comm);
    const int64_t lines = hd_collective_get_payload_bytes(c) / (int64_t)sizeof(float) / LINE;
    const int64_t lo = lines * rank / ranks, hi = lines * (rank + 1) / ranks;
    return (struct slice){lo * LINE, (hi - lo) * LINE};
}

void *hd_message_get_sum(struct hd_comm *comm, int64_t gather)
{
    return hd_comm_get_buffer(comm, hd_comm_get_first_rank(comm), gather);
}

void hd_message_add_host(struct hd_comm *comm, const struct hd_collective *c, int64_t packed,
                         const float **addends)
{
    const int ranks = hd_comm_count_host_ranks(comm), first = hd_comm_get_first_rank(comm);
    float *sums = hd_comm_get_buffer(comm, hd_comm_get_rank(comm), packed + 1);
    for (int i = 0; i < ranks; i++)
        addends[i] = hd_comm_get_buffer(comm, first + i, packed);
    for (int host = 0; host < hd_comm_count_hosts(comm); host++) {
        const struct slice slice = slice_of(comm, c, hd_comm_get_partner(comm, host));
        hd_tree_add(ranks, addends, 1, 0, slice.lo, slice.lo + slice.n, sums + slice.lo);
    }
}

void hd_message_add_slice(struct hd_comm *comm, const struct hd_collective *c, int64_t scatter,
                          const float **addends)
{
    const int hosts = hd_comm_count_hosts(comm);
    const struct slice local = slice_of(comm, c, hd_comm_get_rank(comm));
    for (int host = 0; host < hosts; host++)
        addends[host] = hd_comm_get_buffer(comm, hd_comm_get_partner(comm, host), scatter);
    hd_tree_add(hosts, addends, 1, 0, local.lo, local.lo + local.n,
                (float *)hd_message_get_sum(comm, scatter + 1) + local.lo);
}

static struct hd_comm_transfer make_slice_transfer(int rank, bool out, void *vector,
                                                   struct slice slice)
{
    return (struct hd_comm_transfer){rank, out, (float *)vector + slice.lo,
                                     slice.n * (int64_t)sizeof(float)};
}

/* A partner gets its slice of this host's sums, or this rank's slice of the sum. */
static void list_slice_transfers(struct hd_comm *comm, const struct hd_collective *c,
                                 int64_t sequence, enum hd_message_step step, int partner,
                                 struct hd_comm_transfer *transfers)
{
    const int self = hd_comm_get_rank(comm);
    const struct slice local = slice_of(comm, c, self), remote = slice_of(comm, c, partner);
    if (step == HD_MESSAGE_SCATTER) {
        transfers[0] =
            make_slice_transfer(partner, true, hd_comm_get_buffer(comm, self, sequence), remote);
        transfers[1] =
            make_slice_transfer(partner, false, hd_comm_get_buffer(comm, partner, sequence), local);
    } else {
        void *sum = hd_message_get_sum(comm, sequence);
        transfers[0] = make_slice_transfer(partner, true, sum, local);
        transfers[1] = make_slice_transfer(partner, false, sum, remote);
    }
}

/* Lists the transfers with a partner, by which all get rank 0's vector, or every rank every
 * other's. Returns how many there are. */
static int list_whole_transfers(struct hd_comm *comm, const struct hd_collective *c,
                                int64_t sequence, int partner, struct hd_comm_transfer *transfers)
{
    const int self = hd_comm_get_rank(comm);
    const bool from_root = c->kind == HD_COLLECTIVE_BROADCAST;
    const int64_t bytes = hd_collective_get_payload_bytes(c);
    int n = 0;
    if (!from_root || self == 0)
        transfers[n++] = (struct hd_comm_transfer){partner, true,
                                                   hd_comm_get_buffer(comm, self, sequence), bytes};
    if (!from_root || partner == 0)
        transfers[n++] = (struct hd_comm_transfer){
            partner, false, hd_comm_get_buffer(comm, partner, sequence), bytes};
    return n;
}

int hd_message_list_transfers(struct hd_comm *comm, const struct hd_collective *c,
                              enum hd_message_step step, struct hd_sync_point *point)
{
    const int hosts = hd_comm_count_hosts(comm);
    if (hosts == 1 || c->kind == HD_COLLECTIVE_BARRIER)
        return HD_OK;
    struct hd_comm_transfer *transfers = hd_alloc(2 * hosts, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    int n = 0;
    for (int host = 0; host < hosts; host++) {
        const int partner = hd_comm_get_partner(comm, host);
        if (host == hd_comm_get_host(comm))
            continue;
        if (step == HD_MESSAGE_WHOLE) {
            n += list_whole_transfers(comm, c, point->sequence, partner, transfers + n);
        } else {
            list_slice_transfers(comm, c, point->sequence, step, partner, transfers + n);
            n += 2;
        }
    }
    point->transfers = point->owned = transfers;
    point->n_transfers = n;
    return HD_OK;
}
