/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/collective_internal.h"
#include "runtime/engine/collective/halving.h"

bool hd_message_is_courier(const struct hd_comm *comm)
{
    return hd_comm_get_rank(comm) == hd_comm_get_first_rank(comm);
}

/* -- Slices ------------------------------------------------------------------------------------ */

/* Floats of the vector: whole cache lines, slices as even as can be. */
struct slice {
    int64_t lo, n;
};

static struct slice find_slices(const struct hd_comm *comm, const struct hd_collective *c,
                                struct hd_slices slices)
{
    enum { LINE = 16 };
    const int ranks = hd_comm_count_ranks(comm);
    const int64_t lines = hd_collective_get_payload_bytes(c) / (int64_t)sizeof(float) / LINE;
    const int64_t lo = lines * slices.lo / ranks, hi = lines * slices.hi / ranks;
    return (struct slice){lo * LINE, (hi - lo) * LINE};
}

static struct slice slice_of(const struct hd_comm *comm, const struct hd_collective *c, int rank)
{
    const int number = hd_halving_get_slice(comm, rank);
    return find_slices(comm, c, (struct hd_slices){number, number + 1});
}

static struct hd_comm *comm_of(const struct hd_collective_round *round)
{
    return round->session->options.comm;
}

void hd_message_add_host(const struct hd_collective_round *round, const float **addends)
{
    const struct hd_comm *comm = comm_of(round);
    const int ranks = hd_comm_count_host_ranks(comm), first = hd_comm_get_first_rank(comm);
    const struct slice slice = find_slices(comm, &round->collective,
                                           hd_halving_get_slices(comm, hd_comm_get_rank(comm), 0));
    for (int i = 0; i < ranks; i++)
        addends[i] = hd_round_get_buffer(round, first + i, round->sequence);
    hd_tree_add(ranks, addends, 1, 0, slice.lo, slice.lo + slice.n,
                (float *)hd_round_get_sum(round, round->sequence + 1) + slice.lo);
}

void hd_message_add_slice(const struct hd_collective_round *round, const float **addends)
{
    const struct hd_comm *comm = comm_of(round);
    const int64_t scatter = round->exchange;
    const int hosts = hd_comm_count_hosts(comm);
    const struct slice local = slice_of(comm, &round->collective, hd_comm_get_rank(comm));
    for (int host = 0; host < hosts; host++)
        addends[host] = hd_round_get_buffer(round, hd_comm_get_partner(comm, host), scatter);
    addends[hd_comm_get_host(comm)] = hd_round_get_sum(round, scatter);
    hd_tree_add(hosts, addends, 1, 0, local.lo, local.lo + local.n,
                (float *)hd_round_get_sum(round, scatter + 1) + local.lo);
}

void hd_message_add_half(const struct hd_collective_round *round, int k)
{
    const struct hd_comm *comm = comm_of(round);
    const struct slice slice = find_slices(
        comm, &round->collective, hd_halving_get_slices(comm, hd_comm_get_rank(comm), k + 1));
    float *sum = hd_round_get_sum(round, round->exchange);
    const float *both[] = {
        sum, hd_round_get_buffer(round, hd_halving_get_pair(comm, k), round->exchange)};
    hd_tree_add(2, both, 1, 0, slice.lo, slice.lo + slice.n, sum + slice.lo);
}

static struct hd_comm_transfer make_slice_transfer(int rank, bool out, void *vector,
                                                   struct slice slice)
{
    return (struct hd_comm_transfer){rank, out, (float *)vector + slice.lo,
                                     slice.n * (int64_t)sizeof(float)};
}

/* A partner gets its slice of this host's sums, or this rank's slice of the sum. */
static void list_slice_transfers(const struct hd_collective_round *round, int64_t sequence,
                                 enum hd_message_step step, int partner,
                                 struct hd_comm_transfer *transfers)
{
    const struct hd_comm *comm = comm_of(round);
    const struct slice local = slice_of(comm, &round->collective, hd_comm_get_rank(comm)),
                       remote = slice_of(comm, &round->collective, partner);
    if (step == HD_MESSAGE_SCATTER) {
        transfers[0] =
            make_slice_transfer(partner, true, hd_round_get_sum(round, sequence), remote);
        transfers[1] = make_slice_transfer(partner, false,
                                           hd_round_get_buffer(round, partner, sequence), local);
    } else {
        void *sum = hd_round_get_sum(round, sequence);
        transfers[0] = make_slice_transfer(partner, true, sum, local);
        transfers[1] = make_slice_transfer(partner, false, sum, remote);
    }
}

void hd_message_list_half(const struct hd_collective_round *round, enum hd_message_step step, int k,
                          struct hd_comm_transfer both[2])
{
    const struct hd_comm *comm = comm_of(round);
    const struct hd_collective *c = &round->collective;
    const int64_t exchange = round->exchange;
    const int self = hd_comm_get_rank(comm), pair = hd_halving_get_pair(comm, k);
    const struct slice local = find_slices(comm, c, hd_halving_get_slices(comm, self, k + 1));
    const struct slice remote = find_slices(comm, c, hd_halving_get_slices(comm, pair, k + 1));
    void *sum = hd_round_get_sum(round, exchange);
    const bool scatter = step == HD_MESSAGE_SCATTER;
    both[0] = make_slice_transfer(pair, true, sum, scatter ? remote : local);
    both[1] =
        make_slice_transfer(pair, false, scatter ? hd_round_get_buffer(round, pair, exchange) : sum,
                            scatter ? local : remote);
}

/* Lists the transfers with a partner, by which all get rank 0's vector, or every rank every
 * other's. Returns how many there are. */
static int list_whole_transfers(const struct hd_collective_round *round, int64_t sequence,
                                int partner, struct hd_comm_transfer *transfers)
{
    const struct hd_collective *c = &round->collective;
    const int self = round->session->options.rank;
    const bool from_root = c->kind == HD_COLLECTIVE_BROADCAST;
    const int64_t bytes = hd_collective_get_payload_bytes(c);
    int n = 0;
    if (!from_root || self == 0)
        transfers[n++] = (struct hd_comm_transfer){
            partner, true, hd_round_get_buffer(round, self, sequence), bytes};
    if (!from_root || partner == 0)
        transfers[n++] = (struct hd_comm_transfer){
            partner, false, hd_round_get_buffer(round, partner, sequence), bytes};
    return n;
}

int hd_message_list_transfers(const struct hd_collective_round *round, enum hd_message_step step,
                              struct hd_sync_point *point)
{
    const struct hd_comm *comm = comm_of(round);
    const int hosts = hd_comm_count_hosts(comm);
    if (hosts == 1 || round->collective.kind == HD_COLLECTIVE_BARRIER)
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
            n += list_whole_transfers(round, point->sequence, partner, transfers + n);
        } else {
            list_slice_transfers(round, point->sequence, step, partner, transfers + n);
            n += 2;
        }
    }
    point->transfers = point->owned = transfers;
    point->n_transfers = n;
    return HD_OK;
}
