/* SPDX-License-Identifier: Apache-2.0 */
/* Submits what collectives between hosts do between packing and unpacking: sync points, at which
 * vectors travel, and tasks, which add them. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/collective_internal.h"
#include "runtime/engine/collective/halving.h"

#include <string.h>

static struct hd_comm *comm_of(const struct hd_collective_round *round)
{
    return round->session->options.comm;
}

/* -- Slices ------------------------------------------------------------------------------------ */

/* Returns the bytes of slices of the vector: whole units. */
static struct hd_elements find_slices(const struct hd_collective_round *round,
                                      struct hd_slices slices)
{
    const struct hd_collective *c = &round->collective;
    return hd_halving_cut(0, hd_collective_get_payload_bytes(c), hd_message_get_unit_bytes(c),
                          slices, hd_comm_count_ranks(comm_of(round)));
}

/* Returns what `rank` keeps of the vector in round k, or of an exchange with all partners. */
static struct hd_elements find_kept(const struct hd_collective_round *round, int rank, int k)
{
    return find_slices(round, hd_halving_get_kept(comm_of(round), rank, k));
}

/* -- Tasks ------------------------------------------------------------------------------------- */

/* Adds bytes of n vectors into the sum of number `number`. */
static void add(const struct hd_collective_round *round, int n, const void *const *addends,
                struct hd_elements bytes, void *scratch, int64_t number)
{
    enum { FLOAT = sizeof(float) };
    void *sum = hd_round_get_sum(round, number);
    if (round->collective.rounding)
        hd_rounded_add(round, n, addends, bytes.lo, bytes.hi, scratch, sum);
    else
        hd_tree_add(n, (const float *const *)addends, 1, 0, bytes.lo / FLOAT, bytes.hi / FLOAT,
                    (float *)((char *)sum + bytes.lo));
}

/* Adds the vectors that the ranks of this host packed, in the slices of this rank's number. */
static int run_add_host(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_comm *comm = comm_of(round);
    const int ranks = hd_comm_count_host_ranks(comm), first = hd_comm_get_first_rank(comm);
    const void **addends = context->scratch;
    for (int i = 0; i < ranks; i++)
        addends[i] = hd_round_get_buffer(round, first + i, round->sequence);
    add(round, ranks, addends,
        find_slices(round, hd_halving_get_slices(comm, hd_comm_get_rank(comm), 0)),
        context->scratch, round->exchange);
    return HD_OK;
}

/* Adds this rank's slice of the hosts' sums, which number `exchange` brought, into the sum of the
 * next number. */
static int run_add_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_comm *comm = comm_of(round);
    const int hosts = hd_comm_count_hosts(comm);
    const void **addends = context->scratch;
    for (int host = 0; host < hosts; host++)
        addends[host] =
            hd_round_get_buffer(round, hd_comm_get_partner(comm, host), round->exchange);
    addends[hd_comm_get_host(comm)] = hd_round_get_sum(round, round->exchange);
    add(round, hosts, addends, find_kept(round, hd_comm_get_rank(comm), HD_ALL_PARTNERS),
        context->scratch, round->exchange + 1);
    return HD_OK;
}

/* Adds what the round that context->item tells brought to the sum of number `exchange`. */
static int run_add_half(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_comm *comm = comm_of(round);
    const int k = (int)context->item;
    const void *both[] = {
        hd_round_get_sum(round, round->exchange),
        hd_round_get_buffer(round, hd_halving_get_pair(comm, k), round->exchange)};
    add(round, 2, both, find_kept(round, hd_comm_get_rank(comm), k), context->scratch,
        round->exchange);
    return HD_OK;
}

/* Adds the vectors of the courier's host. */
static int run_add_vectors(struct hd_context *context, const struct hd_view *views,
                           const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_comm *comm = comm_of(round);
    const int first = hd_comm_get_rank(comm), ranks = hd_comm_count_host_ranks(comm);
    void *sum = hd_round_get_buffer(round, first, round->exchange);
    const void *vector = hd_round_add_ranks(round, first, ranks, context->scratch, sum);
    if (vector != sum)
        memcpy(sum, vector, (size_t)hd_collective_get_payload_bytes(&round->collective));
    return HD_OK;
}

/* Adds the sums of a pair of hosts in the round that context->item tells. */
static int run_add_pair(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_collective *c = &round->collective;
    const struct hd_comm *comm = comm_of(round);
    const int self = hd_comm_get_rank(comm), pair = hd_halving_get_pair(comm, (int)context->item);
    void *own = hd_round_get_buffer(round, self, round->exchange);
    void *other = hd_round_get_buffer(round, pair, round->exchange);
    void *left = self < pair ? own : other, *right = self < pair ? other : own;
    const void *both[] = {left, right};
    if (c->rounding) {
        hd_rounded_add(round, 2, both, 0, hd_rounded_get_vector_bytes(c), context->scratch, own);
        return HD_OK;
    }
    c->in_spec->type->reduction->combine(c->in_spec, c->bucket, c->how, left, right);
    if (left != own)
        memcpy(own, left, (size_t)hd_collective_get_payload_bytes(c));
    return HD_OK;
}

/* -- Transfers --------------------------------------------------------------------------------- */
/* They are with a partner, in the memory of number `number`. The functions return how many. */

/* All get rank 0's vector, or every rank every other's. */
static int list_whole(const struct hd_collective_round *round, int partner, int64_t number,
                      struct hd_comm_transfer *transfers)
{
    const struct hd_collective *c = &round->collective;
    const int self = round->session->options.rank;
    const bool from_root = c->kind == HD_COLLECTIVE_BROADCAST;
    const int64_t bytes = hd_collective_get_payload_bytes(c);
    int n = 0;
    if (!from_root || self == 0)
        transfers[n++] = (struct hd_comm_transfer){partner, true,
                                                   hd_round_get_buffer(round, self, number), bytes};
    if (!from_root || partner == 0)
        transfers[n++] = (struct hd_comm_transfer){
            partner, false, hd_round_get_buffer(round, partner, number), bytes};
    return n;
}

static struct hd_comm_transfer make_transfer(int rank, bool out, void *vector,
                                             struct hd_elements bytes)
{
    return (struct hd_comm_transfer){rank, out, (char *)vector + bytes.lo, bytes.hi - bytes.lo};
}

/* A partner gets what it keeps of this rank's sums, or what this rank has kept. */
static int list_slices(const struct hd_collective_round *round, enum hd_message_step step, int k,
                       int partner, int64_t number, struct hd_comm_transfer *transfers)
{
    const struct hd_elements local = find_kept(round, round->session->options.rank, k);
    const struct hd_elements remote = find_kept(round, partner, k);
    const bool scatter = step == HD_MESSAGE_SCATTER;
    void *sum = hd_round_get_sum(round, number);
    void *received = scatter ? hd_round_get_buffer(round, partner, number) : sum;
    transfers[0] = make_transfer(partner, true, sum, scatter ? remote : local);
    transfers[1] = make_transfer(partner, false, received, scatter ? local : remote);
    return 2;
}

/* -- Submitting -------------------------------------------------------------------------------- */

static int submit_wait_on_host(const struct hd_collective_round *round, int64_t sequence)
{
    return hd_round_submit_point(round,
                                 (struct hd_sync_point){.sequence = sequence, .on_host = true});
}

/* Submits sync point `sequence`, at which vectors of number `number` travel: to the pair of round
 * k, or to all partners. */
static int submit_exchange(const struct hd_collective_round *round, enum hd_message_step step,
                           int k, int64_t sequence, int64_t number)
{
    const struct hd_comm *comm = comm_of(round);
    const bool barrier = round->collective.kind == HD_COLLECTIVE_BARRIER;
    const int hosts = barrier ? 0 : hd_comm_count_hosts(comm);
    struct hd_comm_transfer *transfers = hd_alloc(2 * hosts, sizeof *transfers);
    int n = 0;
    if (!transfers)
        return HD_ERR_NOMEM;
    for (int host = 0; host < hosts; host++) {
        const int partner = hd_comm_get_partner(comm, host);
        if (!hd_halving_meets(comm, host, k))
            continue;
        n += step == HD_MESSAGE_WHOLE ? list_whole(round, partner, number, transfers + n)
                                      : list_slices(round, step, k, partner, number, transfers + n);
    }
    const int status =
        hd_round_submit_point(round, (struct hd_sync_point){.sequence = sequence,
                                                            .transfers = transfers,
                                                            .n_transfers = n,
                                                            .pairs = k != HD_ALL_PARTNERS,
                                                            .owned = transfers});
    if (status != HD_OK)
        hd_free(transfers);
    return status;
}

/* vectors, item: of hd_round_make_task, and of its context. */
static int submit_adding(struct hd_collective_round *round, hd_body *body, double vectors, int item)
{
    struct hd_task task = hd_round_make_task(round, body, vectors);
    task.context.item = item;
    return hd_round_submit_task(round, task, false, false, false);
}

/* All ranks count the same numbers, whether they take part in the rounds or not. There is an even
 * number of them after that of the sum, so that the next collective's vectors do not go where ranks
 * of this host may still read it. */
static int submit_pairs(struct hd_collective_round *round)
{
    const struct hd_comm *comm = comm_of(round);
    const int ranks = hd_comm_count_host_ranks(comm), rounds = hd_halving_count_rounds(comm);
    const bool several = ranks > 1;
    const bool courier = hd_comm_get_rank(comm) == hd_comm_get_first_rank(comm);
    const int64_t first = round->exchange = round->sum = round->sequence + several;
    round->channel->next_sequence = first + rounds + rounds % 2;
    if (several)
        HD_TRY(submit_wait_on_host(round, round->sequence));
    if (several && courier)
        HD_TRY(submit_adding(round, run_add_vectors, ranks + 1, 0));
    for (int k = 0; k < rounds && courier; k++) {
        HD_TRY(submit_exchange(round, HD_MESSAGE_WHOLE, k, first + k, first));
        HD_TRY(submit_adding(round, run_add_pair, 3, k));
    }
    return several ? submit_wait_on_host(round, round->channel->next_sequence) : HD_OK;
}

/* The ranks of this host wait for each other, and each adds the vectors in the slices of its
 * number, if there are several. */
static int submit_host_sum(struct hd_collective_round *round)
{
    const double ranks = hd_comm_count_host_ranks(comm_of(round));
    round->exchange = round->sequence + (ranks > 1);
    round->channel->next_sequence = round->exchange;
    if (ranks == 1)
        return HD_OK;
    HD_TRY(submit_wait_on_host(round, round->sequence));
    return submit_adding(round, run_add_host, (ranks + 1) / ranks, 0);
}

static int submit_slices(struct hd_collective_round *round)
{
    const struct hd_comm *comm = comm_of(round);
    const double ranks = hd_comm_count_host_ranks(comm), hosts = hd_comm_count_hosts(comm);
    HD_TRY(submit_host_sum(round));
    HD_TRY(submit_exchange(round, HD_MESSAGE_SCATTER, HD_ALL_PARTNERS, round->exchange,
                           round->exchange));
    HD_TRY(submit_adding(round, run_add_slice, (hosts + 1) / (hosts * ranks), 0));
    round->sum = ++round->channel->next_sequence;
    return submit_exchange(round, HD_MESSAGE_GATHER, HD_ALL_PARTNERS, round->sum, round->sum);
}

/* As in submit_pairs, an even number of numbers comes after that of the sum. */
static int submit_halves(struct hd_collective_round *round)
{
    const struct hd_comm *comm = comm_of(round);
    const double ranks = hd_comm_count_host_ranks(comm);
    const int rounds = hd_halving_count_rounds(comm);
    HD_TRY(submit_host_sum(round));
    const int64_t first = round->sum = round->exchange, last = first + 2 * rounds;
    round->channel->next_sequence = last;
    for (int k = 0; k < rounds; k++) {
        HD_TRY(submit_exchange(round, HD_MESSAGE_SCATTER, k, first + k, first));
        HD_TRY(submit_adding(round, run_add_half, 3 / (ranks * (2 << k)), k));
    }
    for (int k = rounds - 1; k >= 0; k--)
        HD_TRY(submit_exchange(round, HD_MESSAGE_GATHER, k, last - 1 - k, first));
    return ranks > 1 ? submit_wait_on_host(round, last) : HD_OK;
}

int hd_round_submit_steps(struct hd_collective_round *round)
{
    switch (round->way) {
    case HD_MESSAGE_ALL:
        return submit_exchange(round, HD_MESSAGE_WHOLE, HD_ALL_PARTNERS, round->sequence,
                               round->sequence);
    case HD_MESSAGE_SLICES:
        return submit_slices(round);
    case HD_MESSAGE_PAIRS:
        return submit_pairs(round);
    case HD_MESSAGE_HALVES:
        return submit_halves(round);
    }
    return HD_OK;
}
