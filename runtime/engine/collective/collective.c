/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as tasks. Ranks of one host compute on shared memory: a task packs this rank's block
 * of the tree, a sync point waits for the other ranks without a worker, and a task finishes the
 * tree over the ranks and unpacks. All three hold the token of their channel, which orders the
 * collectives there. A single rank needs one task.
 *
 * Under message passing, partners send each other the packed vectors at the sync point, or parts
 * and sums of them at several sync points with a number each (collective_internal.h). */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/collective/collective_internal.h"

#include <string.h>

/* -- The three tasks --------------------------------------------------------------------------- */

static void hash_buckets(const struct hd_collective *c, const float *data, uint64_t *hashes)
{
    for (int bucket = 0; bucket < c->in_spec->buckets; bucket++) {
        int64_t lo, hi;
        hd_spec_get_bucket(c->in_spec, bucket, &lo, &hi);
        hashes[bucket] = hd_hash_floats(0, data + lo, hi - lo);
    }
}

/* Computes this rank's contribution, usually at `vector`, and returns where it is. */
static const void *contribute(const struct hd_collective_round *round, void *scratch, void *vector)
{
    const struct hd_collective *c = &round->collective;
    switch (c->kind) {
    case HD_COLLECTIVE_REDUCE:
        return hd_round_add_instances(round, scratch, vector);
    case HD_COLLECTIVE_BROADCAST:
        if (round->session->options.rank != 0)
            break;
        if (hd_collective_is_packed(c))
            c->in_spec->type->reduction->pack(c->in_spec, 0, round->memory[0], vector);
        else
            memcpy(vector, round->memory[0], (size_t)c->in_spec->bytes);
        break;
    case HD_COLLECTIVE_COMPARE:
        hash_buckets(c, round->memory[0], vector);
        break;
    case HD_COLLECTIVE_BARRIER:
        break;
    }
    return vector;
}

static void deliver(const struct hd_collective_round *round, const void *vector, void *scratch)
{
    const struct hd_collective *c = &round->collective;
    if (!c->out.data)
        return;
    if (c->rounding)
        hd_rounded_unpack(round, vector, scratch);
    else if (c->kind == HD_COLLECTIVE_REDUCE)
        c->in_spec->type->reduction->unpack(c->out_spec, c->bucket, c->how, vector, c->out.data);
    else if (hd_collective_is_packed(c))
        c->in_spec->type->reduction->unpack(c->out_spec, 0, HD_SUM, vector, c->out.data);
    else
        memcpy(c->out.data, vector, (size_t)c->out_spec->bytes);
}

static int compare(struct hd_context *context, const struct hd_collective_round *round)
{
    const struct hd_session_options *options = &round->session->options;
    const struct hd_spec *spec = round->collective.in_spec;
    const uint64_t *first = hd_round_get_buffer(round, 0, round->sequence);
    for (int rank = 1; rank < options->ranks; rank++) {
        const uint64_t *other = hd_round_get_buffer(round, rank, round->sequence);
        for (int bucket = 0; bucket < spec->buckets; bucket++)
            if (other[bucket] != first[bucket]) {
                hd_body_fail(context, "bucket %d of '%s' differs between rank 0 and rank %d",
                             bucket, spec->name, rank);
                return HD_ERR_DIVERGED;
            }
    }
    return HD_OK;
}

static int run_alone(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    if (round->collective.kind == HD_COLLECTIVE_BROADCAST &&
        !hd_collective_is_packed(&round->collective))
        return hd_value_snapshot(round->collective.out_spec, round->collective.out.data,
                                 round->memory[0]);
    deliver(round, contribute(round, context->scratch, context->scratch), context->scratch);
    return HD_OK;
}

static int reduce_on_gpu(struct hd_context *context, const struct hd_collective_round *round,
                         enum hd_combine how)
{
    const struct hd_collective *c = &round->collective;
    return c->in_spec->type->reduction->reduce_on_gpu(c->in_spec, c->bucket, how, c->n_in,
                                                      (const void *const *)round->memory,
                                                      c->out_spec, c->out.data, context->stream);
}

static int run_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    return reduce_on_gpu(context, args, ((const struct hd_collective_round *)args)->collective.how);
}

/* -- Between GPUs ------------------------------------------------------------------------------ */
/* A task adds this rank's operands in place of the result and copies their count to the session's
 * memory for the open collective. The device comm brings slices together and distributes the sum,
 * which is added as a single rank would add it. */

static int run_operand(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    const struct hd_collective *c = &round->collective;
    if (c->n_in > 0)
        HD_TRY(reduce_on_gpu(context, round, HD_SUM));
    return hd_device_copy(round->session->exchanges.device_scratch,
                          c->in_spec->type->reduction->count(c->out_spec, c->bucket, c->out.data),
                          sizeof(float), context->stream);
}

static int add_operands(const void *arg, const struct hd_operand *operands, int n_operands,
                        int64_t n, float *to, float *total, void *stream)
{
    const struct hd_collective *c = &((const struct hd_collective_round *)arg)->collective;
    return c->in_spec->type->reduction->add_on_gpu(c->how, operands, n_operands, n, to, total,
                                                   stream);
}

static void set_device_collective(struct hd_collective_round *round)
{
    const struct hd_collective *c = &round->collective;
    int64_t lo, hi;
    hd_spec_get_bucket(c->in_spec, c->bucket, &lo, &hi);
    float *scratch = round->session->exchanges.device_scratch;
    round->device_collective = (struct hd_device_collective){
        .kind = round->session->options.library_order ? HD_DEVICE_ALL_REDUCE_LIBRARY
                                                      : HD_DEVICE_ALL_REDUCE_TREE,
        .name = c->name,
        .n = hi - lo,
        .operands = (const float *)c->out.data + lo,
        .count = scratch,
        .to = (float *)c->out.data + lo,
        .total = c->in_spec->type->reduction->count(c->out_spec, c->bucket, c->out.data),
        .scratch = scratch ? scratch + HD_DEVICE_COMM_COUNT_FLOATS : NULL,
        .add = add_operands,
        .arg = round,
    };
}

static int run_pack(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    void *local = hd_round_get_buffer(round, round->session->options.rank, round->sequence);
    const void *vector = contribute(round, context->scratch, local);
    if (vector != local)
        memcpy(local, vector, (size_t)hd_collective_get_payload_bytes(&round->collective));
    return HD_OK;
}

static const void *find_sum(const struct hd_collective_round *round, void *scratch)
{
    const struct hd_session_options *options = &round->session->options;
    return round->way == HD_MESSAGE_ALL
               ? hd_round_add_ranks(round, 0, options->ranks, scratch, scratch)
               : hd_round_get_sum(round, round->sum);
}

static int run_unpack(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_collective_round *round = args;
    switch (round->collective.kind) {
    case HD_COLLECTIVE_REDUCE:
        if (round->collective.out.data)
            deliver(round, find_sum(round, context->scratch), context->scratch);
        break;
    case HD_COLLECTIVE_BROADCAST:
        deliver(round, hd_round_get_buffer(round, 0, round->sequence), NULL);
        break;
    case HD_COLLECTIVE_COMPARE:
        return compare(context, round);
    case HD_COLLECTIVE_BARRIER:
        break;
    }
    return HD_OK;
}

/* -- Submitting -------------------------------------------------------------------------------- */

static struct hd_collective_round *make_round(struct hd_session *session,
                                              const struct hd_collective *c)
{
    struct hd_collective_round *round =
        hd_alloc(1, sizeof *round + (size_t)(2 * c->n_in + 1) * sizeof round->memory[0]);
    if (!round)
        return NULL;
    round->session = session;
    round->collective = *c;
    for (int i = 0; i < c->n_in; i++) {
        round->memory[i] = c->in[i].data;
        if (c->residuals)
            round->memory[c->n_in + 1 + i] = c->residuals[i].data;
    }
    round->memory[c->n_in] = c->out.data;
    return round;
}

/* The work depends on addresses, the bucket and the way to combine, all of which the key tells. */
static struct hd_task make_gpu_task(const struct hd_collective_round *round)
{
    const struct hd_collective *c = &round->collective;
    struct hd_task task = hd_round_make_task(round, run_on_gpu, round->collective.n_in + 1);
    task.graph_capturable = c->in_spec->type->reduction->graph_capturable;
    task.graph = c->bucket * (HD_MIN + 1) + (int)c->how;
    task.key = round->memory;
    task.key_bytes = (c->n_in + 1) * (int)sizeof round->memory[0];
    return task;
}

static int submit_between_gpus(struct hd_collective_round *round)
{
    const struct hd_collective *c = &round->collective;
    set_device_collective(round);
    HD_TRY(
        hd_round_submit_task(round, hd_round_make_task(round, run_operand, 2), true, true, false));
    const struct hd_access result = {c->out.buffer, c->bucket, HD_ALL_PARTIALS, HD_UPDATE};
    return hd_round_submit_point(
        round, (struct hd_sync_point){.sequence = round->sequence,
                                      .accesses = &result,
                                      .n_accesses = 1,
                                      .device_collective = &round->device_collective,
                                      .owned = round});
}

static int submit_round(struct hd_collective_round *round)
{
    struct hd_session *session = round->session;
    const struct hd_collective *c = &round->collective;
    const bool alone = session->options.ranks == 1 || c->alone;
    if (alone && c->home == HD_HOST)
        return hd_round_submit_task(round, hd_round_make_task(round, run_alone, c->n_in + 1), true,
                                    true, true);
    if (alone)
        return hd_round_submit_task(round, make_gpu_task(round), true, true, true);
    /* The device comm has one order of its own, and one memory for what is open. */
    round->channel = hd_session_get_channel(session, c->home == HD_HOST ? c->channel : 0);
    round->sequence = ++round->channel->next_sequence;
    if (c->home != HD_HOST)
        return submit_between_gpus(round);
    round->way = hd_message_choose(&session->options, c);
    HD_TRY(hd_round_submit_task(round, hd_round_make_task(round, run_pack, c->n_in + 1), true,
                                false, false));
    HD_TRY(hd_round_submit_steps(round));
    const bool adds = c->kind == HD_COLLECTIVE_REDUCE && round->way == HD_MESSAGE_ALL;
    const int operands = adds ? session->options.ranks : 1;
    return hd_round_submit_task(round, hd_round_make_task(round, run_unpack, operands + 1), false,
                                true, true);
}

int hd_submit_collective(struct hd_session *session, const struct hd_collective *c)
{
    struct hd_collective_round *round = make_round(session, c);
    int status = round ? submit_round(round) : HD_ERR_NOMEM;
    if (status == HD_OK)
        return HD_OK;
    hd_session_abandon(session, status, c->name);
    hd_free(round);
    return status;
}
