/* SPDX-License-Identifier: Apache-2.0 */
/* Submits what collectives between hosts do between packing and unpacking. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/collective_internal.h"
#include "runtime/engine/collective/halving.h"

#include <string.h>

/* -- Tasks ------------------------------------------------------------------------------------- */

static int run_add_host(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    hd_message_add_host(round, context->scratch);
    return HD_OK;
}

static int run_add_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    hd_message_add_slice(round, context->scratch);
    return HD_OK;
}

/* Adds the vectors of the courier's host. */
static int run_add_vectors(struct hd_context *context, const struct hd_view *views,
                           const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    struct hd_comm *comm = round->session->options.comm;
    const int first = hd_comm_get_rank(comm), ranks = hd_comm_count_host_ranks(comm);
    void *sum = hd_round_get_buffer(round, first, round->exchange);
    const void *vector = hd_round_add_ranks(round, first, ranks, context->scratch, sum);
    if (vector != sum)
        memcpy(sum, vector, (size_t)hd_collective_get_payload_bytes(&round->collective));
    return HD_OK;
}

/* Add the sums of a pair of hosts, or a half of them, in the round that context->item tells. */
static int run_add_pair(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_collective *c = &round->collective;
    struct hd_comm *comm = round->session->options.comm;
    const int self = hd_comm_get_rank(comm), pair = hd_halving_get_pair(comm, (int)context->item);
    void *own = hd_round_get_buffer(round, self, round->exchange);
    void *other = hd_round_get_buffer(round, pair, round->exchange);
    void *left = self < pair ? own : other, *right = self < pair ? other : own;
    c->in_spec->type->reduction->combine(c->in_spec, c->bucket, c->how, left, right);
    if (left != own)
        memcpy(own, left, (size_t)hd_collective_get_payload_bytes(c));
    return HD_OK;
}

static int run_add_half(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    hd_message_add_half(args, (int)context->item);
    return HD_OK;
}

/* -- Submitting -------------------------------------------------------------------------------- */

static struct hd_sync_point make_point(const struct hd_collective_round *round, int64_t sequence)
{
    const struct hd_collective *c = &round->collective;
    return (struct hd_sync_point){.name = c->name,
                                  .channel = round->channel,
                                  .sequence = sequence,
                                  .iteration = c->iteration,
                                  .priority = c->priority,
                                  .group = c->group};
}

static int submit_step(struct hd_collective_round *round, int64_t sequence,
                       enum hd_message_step step)
{
    struct hd_sync_point point = make_point(round, sequence);
    HD_TRY(hd_message_list_transfers(round, step, &point));
    int status = hd_submit_sync(round->session, &point);
    if (status != HD_OK)
        hd_free(point.owned);
    return status;
}

static int submit_wait_on_host(struct hd_collective_round *round, int64_t sequence)
{
    struct hd_sync_point point = make_point(round, sequence);
    point.on_host = true;
    return hd_submit_sync(round->session, &point);
}

static int submit_pair(struct hd_collective_round *round, int64_t sequence,
                       const struct hd_comm_transfer both[2])
{
    struct hd_sync_point point = make_point(round, sequence);
    struct hd_comm_transfer *transfers = hd_alloc(2, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    memcpy(transfers, both, 2 * sizeof *both);
    point.transfers = point.owned = transfers;
    point.n_transfers = 2;
    point.pairs = true;
    int status = hd_submit_sync(round->session, &point);
    if (status != HD_OK)
        hd_free(transfers);
    return status;
}

/* vectors, item: of hd_round_make_task, and of its context. */
static int submit_adding(struct hd_collective_round *round,
                         int (*body)(struct hd_context *, const struct hd_view *, const void *),
                         double vectors, int item)
{
    struct hd_task task = hd_round_make_task(round, body, vectors);
    task.context.item = item;
    return hd_round_submit_task(round, task, false, false, false);
}

static int submit_whole_pair(struct hd_collective_round *round, int k)
{
    struct hd_comm *comm = round->session->options.comm;
    const int self = hd_comm_get_rank(comm), pair = hd_halving_get_pair(comm, k);
    const int64_t bytes = hd_collective_get_payload_bytes(&round->collective);
    const struct hd_comm_transfer both[] = {
        {pair, true, hd_round_get_buffer(round, self, round->exchange), bytes},
        {pair, false, hd_round_get_buffer(round, pair, round->exchange), bytes}};
    HD_TRY(submit_pair(round, round->exchange + k, both));
    return submit_adding(round, run_add_pair, 3, k);
}

/* All ranks count the same numbers, whether they take part in the rounds or not. There is an even
 * number of them after that of the sum, so that the next collective's vectors do not go where ranks
 * of this host may still read it. */
static int submit_pairs(struct hd_collective_round *round)
{
    struct hd_session_channel *channel = round->channel;
    struct hd_comm *comm = round->session->options.comm;
    const int ranks = hd_comm_count_host_ranks(comm);
    const bool several = ranks > 1, courier = hd_message_is_courier(comm);
    const int rounds = hd_halving_count_rounds(comm);
    round->exchange = round->sum = round->sequence + several;
    channel->next_sequence = round->exchange + rounds + rounds % 2;
    if (several)
        HD_TRY(submit_wait_on_host(round, round->sequence));
    if (several && courier)
        HD_TRY(submit_adding(round, run_add_vectors, ranks + 1, 0));
    for (int k = 0; k < rounds && courier; k++)
        HD_TRY(submit_whole_pair(round, k));
    return several ? submit_wait_on_host(round, channel->next_sequence) : HD_OK;
}

/* The ranks of this host wait for each other, and each adds the vectors in the slices of its
 * number, if there are several. */
static int submit_host_sum(struct hd_collective_round *round)
{
    const double ranks = hd_comm_count_host_ranks(round->session->options.comm);
    round->exchange = round->sequence + (ranks > 1);
    round->channel->next_sequence = round->exchange;
    if (ranks == 1)
        return HD_OK;
    HD_TRY(submit_wait_on_host(round, round->sequence));
    return submit_adding(round, run_add_host, (ranks + 1) / ranks, 0);
}

static int submit_slices(struct hd_collective_round *round)
{
    const struct hd_comm *comm = round->session->options.comm;
    const double ranks = hd_comm_count_host_ranks(comm), hosts = hd_comm_count_hosts(comm);
    HD_TRY(submit_host_sum(round));
    HD_TRY(submit_step(round, round->exchange, HD_MESSAGE_SCATTER));
    HD_TRY(submit_adding(round, run_add_slice, (hosts + 1) / (hosts * ranks), 0));
    round->sum = ++round->channel->next_sequence;
    return submit_step(round, round->sum, HD_MESSAGE_GATHER);
}

/* As in submit_pairs, an even number of numbers comes after that of the sum. */
static int submit_halves(struct hd_collective_round *round)
{
    struct hd_comm *comm = round->session->options.comm;
    const double ranks = hd_comm_count_host_ranks(comm);
    const int rounds = hd_halving_count_rounds(comm);
    struct hd_comm_transfer both[2];
    HD_TRY(submit_host_sum(round));
    round->sum = round->exchange;
    round->channel->next_sequence = round->exchange + 2 * rounds;
    for (int k = 0; k < rounds; k++) {
        hd_message_list_half(round, HD_MESSAGE_SCATTER, k, both);
        HD_TRY(submit_pair(round, round->exchange + k, both));
        HD_TRY(submit_adding(round, run_add_half, 3 / (ranks * (2 << k)), k));
    }
    for (int k = rounds - 1; k >= 0; k--) {
        hd_message_list_half(round, HD_MESSAGE_GATHER, k, both);
        HD_TRY(submit_pair(round, round->exchange + 2 * rounds - 1 - k, both));
    }
    return ranks > 1 ? submit_wait_on_host(round, round->channel->next_sequence) : HD_OK;
}

int hd_round_submit_steps(struct hd_collective_round *round)
{
    switch (round->way) {
    case HD_MESSAGE_ALL:
        return submit_step(round, round->sequence, HD_MESSAGE_WHOLE);
    case HD_MESSAGE_SLICES:
        return submit_slices(round);
    case HD_MESSAGE_PAIRS:
        return submit_pairs(round);
    case HD_MESSAGE_HALVES:
        return submit_halves(round);
    }
    return HD_OK;
}
