/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as tasks. Ranks of one host compute on shared memory: a task packs this rank's block
 * of the tree, a sync point waits for the other ranks without a worker, and a task finishes the
 * tree over the ranks and unpacks. All three hold the token, which orders the collectives. A single
 * rank needs one task.
 *
 * Under message passing, partners send each other the packed vectors at the sync point. A long
 * vector of floats goes in slices, by several sync points with a number each
 * (collective_internal.h). */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/collective/collective_internal.h"

#include <string.h>

/* A copy of a submitted collective; its last task frees it. */
struct round {
    struct hd_session *session;
    struct hd_collective collective;
    int64_t sequence; /* 0: a single rank */
    enum hd_message_way way;
    int64_t exchange; /* in slices or by pairs: the first number at which hosts exchange sums */
    struct hd_device_collective device_collective; /* between GPUs */
    void *memory[]; /* of the instances that it reads, then of its output */
};

/* -- The tree ---------------------------------------------------------------------------------- */

struct reduce {
    const struct round *round;
    char *levels; /* one vector per level */
    void *top;    /* where the root's vector goes: level 0 */
};

static void *level_vector(const struct reduce *reduce, int level)
{
    return level == 0 ? reduce->top
                      : reduce->levels +
                            hd_collective_get_payload_bytes(&reduce->round->collective) * level;
}

static void *pack_leaf(void *arg, int64_t i, int level)
{
    const struct reduce *reduce = arg;
    const struct hd_collective *c = &reduce->round->collective;
    void *vector = level_vector(reduce, level);
    c->in_spec->type->reduction->pack(c->in_spec, c->bucket, reduce->round->memory[i], vector);
    return vector;
}

static void *rank_leaf(void *arg, int64_t rank, int level)
{
    (void)level;
    const struct round *round = ((const struct reduce *)arg)->round;
    return hd_comm_get_buffer(round->session->options.comm, (int)rank, round->sequence);
}

static void *combine(void *arg, int level, void *left, void *right)
{
    const struct reduce *reduce = arg;
    const struct hd_collective *c = &reduce->round->collective;
    void *vector = level_vector(reduce, level);
    if (left != vector)
        memcpy(vector, left, (size_t)hd_collective_get_payload_bytes(c));
    c->in_spec->type->reduction->combine(c->in_spec, c->bucket, c->how, vector, right);
    return vector;
}

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
static void *contribute(const struct round *round, void *scratch, void *vector)
{
    const struct hd_collective *c = &round->collective;
    struct reduce reduce = {round, scratch, vector};
    switch (c->kind) {
    case HD_COLLECTIVE_REDUCE:
        return hd_tree_reduce(0, c->n_in, pack_leaf, combine, &reduce);
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
    case HD_COLLECTIVE_GATHER:
        break;
    }
    return vector;
}

static void deliver(const struct round *round, const void *vector)
{
    const struct hd_collective *c = &round->collective;
    if (!c->out)
        return;
    if (c->kind == HD_COLLECTIVE_REDUCE)
        c->in_spec->type->reduction->unpack(c->out_spec, c->bucket, c->how, vector, c->out);
    else if (hd_collective_is_packed(c))
        c->in_spec->type->reduction->unpack(c->out_spec, 0, HD_SUM, vector, c->out);
    else
        memcpy(c->out, vector, (size_t)c->out_spec->bytes);
}

static int compare(struct hd_context *context, const struct round *round)
{
    const struct hd_session_options *options = &round->session->options;
    const struct hd_spec *spec = round->collective.in_spec;
    const uint64_t *first = hd_comm_get_buffer(options->comm, 0, round->sequence);
    for (int rank = 1; rank < options->ranks; rank++) {
        const uint64_t *other = hd_comm_get_buffer(options->comm, rank, round->sequence);
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
    const struct round *round = args;
    if (round->collective.kind == HD_COLLECTIVE_BROADCAST &&
        !hd_collective_is_packed(&round->collective))
        return hd_value_snapshot(round->collective.out_spec, round->collective.out,
                                 round->memory[0]);
    deliver(round, contribute(round, context->scratch, context->scratch));
    return HD_OK;
}

static int reduce_on_gpu(struct hd_context *context, const struct round *round, enum hd_combine how)
{
    const struct hd_collective *c = &round->collective;
    return c->in_spec->type->reduction->reduce_on_gpu(c->in_spec, c->bucket, how, c->n_in,
                                                      (const void *const *)round->memory,
                                                      c->out_spec, c->out, context->stream);
}

static int run_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    return reduce_on_gpu(context, args, ((const struct round *)args)->collective.how);
}

/* -- Between GPUs ------------------------------------------------------------------------------ */
/* A task adds this rank's operands in place of the result and copies their count to the session's
 * memory for the open collective. The device comm brings slices together and distributes the sum,
 * which is added as a single rank would add it. */

static int run_operand(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct round *round = args;
    const struct hd_collective *c = &round->collective;
    if (c->n_in > 0)
        HD_TRY(reduce_on_gpu(context, round, HD_SUM));
    return hd_device_copy(round->session->device_comm_scratch,
                          c->in_spec->type->reduction->count(c->out_spec, c->bucket, c->out),
                          sizeof(float), context->stream);
}

static int add_operands(const void *arg, const struct hd_operand *operands, int n_operands,
                        int64_t n, float *to, float *total, void *stream)
{
    const struct hd_collective *c = &((const struct round *)arg)->collective;
    return c->in_spec->type->reduction->add_on_gpu(c->how, operands, n_operands, n, to, total,
                                                   stream);
}

static enum hd_device_collective_kind choose_sum(const struct round *round)
{
    if (round->session->options.library_order)
        return HD_DEVICE_ALL_REDUCE_LIBRARY;
    return round->collective.sliced ? HD_DEVICE_REDUCE_SCATTER : HD_DEVICE_ALL_REDUCE_TREE;
}

static void set_device_collective(struct round *round)
{
    const struct hd_collective *c = &round->collective;
    int64_t lo, hi;
    hd_spec_get_bucket(c->in_spec, c->bucket, &lo, &hi);
    float *scratch = round->session->device_comm_scratch;
    round->device_collective = (struct hd_device_collective){
        .kind = choose_sum(round),
        .name = c->name,
        .n = hi - lo,
        .operands = (const float *)c->out + lo,
        .count = scratch,
        .to = (float *)c->out + lo,
        .total = c->in_spec->type->reduction->count(c->out_spec, c->bucket, c->out),
        .scratch = scratch + HD_DEVICE_COMM_COUNT_FLOATS,
        .add = add_operands,
        .arg = round,
    };
}

static int run_pack(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct round *round = args;
    const struct hd_session_options *options = &round->session->options;
    void *local = hd_comm_get_buffer(options->comm, options->rank, round->sequence);
    const void *vector = contribute(round, context->scratch, local);
    if (vector != local)
        memcpy(local, vector, (size_t)hd_collective_get_payload_bytes(&round->collective));
    return HD_OK;
}

static int run_add_host(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct round *round = args;
    hd_message_add_host(round->session->options.comm, &round->collective, round->sequence,
                        context->scratch);
    return HD_OK;
}

static int run_add_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct round *round = args;
    hd_message_add_slice(round->session->options.comm, &round->collective, round->exchange,
                         context->scratch);
    return HD_OK;
}

/* Adds the vectors of the courier's host. */
static int run_add_vectors(struct hd_context *context, const struct hd_view *views,
                           const void *args)
{
    (void)views;
    const struct round *round = args;
    struct hd_comm *comm = round->session->options.comm;
    const int first = hd_comm_get_rank(comm), ranks = hd_comm_count_host_ranks(comm);
    void *sum = hd_comm_get_buffer(comm, first, round->exchange);
    struct reduce reduce = {round, context->scratch, sum};
    const void *vector = hd_tree_reduce(first, first + ranks, rank_leaf, combine, &reduce);
    if (vector != sum)
        memcpy(sum, vector, (size_t)hd_collective_get_payload_bytes(&round->collective));
    return HD_OK;
}

/* Adds the sums of a pair of hosts, in the round that context->item tells. */
static int run_add_pair(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct round *round = args;
    const struct hd_collective *c = &round->collective;
    struct hd_comm *comm = round->session->options.comm;
    const int self = hd_comm_get_rank(comm), pair = hd_message_get_pair(comm, (int)context->item);
    void *own = hd_comm_get_buffer(comm, self, round->exchange);
    void *other = hd_comm_get_buffer(comm, pair, round->exchange);
    void *left = self < pair ? own : other, *right = self < pair ? other : own;
    c->in_spec->type->reduction->combine(c->in_spec, c->bucket, c->how, left, right);
    if (left != own)
        memcpy(own, left, (size_t)hd_collective_get_payload_bytes(c));
    return HD_OK;
}

static int run_unpack(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct round *round = args;
    const struct hd_session_options *options = &round->session->options;
    struct reduce reduce = {round, context->scratch, context->scratch};
    switch (round->collective.kind) {
    case HD_COLLECTIVE_REDUCE:
        if (round->way == HD_MESSAGE_PAIRS)
            deliver(round, hd_message_get_sum(options->comm, round->exchange));
        else if (round->way == HD_MESSAGE_SLICES)
            deliver(round, hd_message_get_sum(options->comm, round->exchange + 1));
        else if (round->collective.out)
            deliver(round, hd_tree_reduce(0, options->ranks, rank_leaf, combine, &reduce));
        break;
    case HD_COLLECTIVE_BROADCAST:
        deliver(round, hd_comm_get_buffer(options->comm, 0, round->sequence));
        break;
    case HD_COLLECTIVE_COMPARE:
        return compare(context, round);
    case HD_COLLECTIVE_BARRIER:
    case HD_COLLECTIVE_GATHER:
        break;
    }
    return HD_OK;
}

/* -- Submitting -------------------------------------------------------------------------------- */

static struct round *make_round(struct hd_session *session, const struct hd_collective *c)
{
    struct round *round =
        hd_alloc(1, sizeof *round + (size_t)(c->n_in + 1) * sizeof round->memory[0]);
    if (!round)
        return NULL;
    round->session = session;
    round->collective = *c;
    if (c->n_in > 0)
        memcpy(round->memory, c->in, (size_t)c->n_in * sizeof round->memory[0]);
    round->memory[c->n_in] = c->out;
    return round;
}

/* vectors: how many vectors the task goes through, as operands and as its result. */
static struct hd_task
make_task(const struct round *round,
          int (*body)(struct hd_context *, const struct hd_view *, const void *), double vectors)
{
    const struct hd_collective *c = &round->collective;
    const int64_t bytes =
        c->kind == HD_COLLECTIVE_COMPARE ? c->in_spec->bytes : hd_collective_get_payload_bytes(c);
    return (struct hd_task){
        .verb = c->verb,
        .name = c->name,
        .body = body,
        .args = round,
        .context = {.iteration = c->iteration, .shard = -1},
        .home = c->home,
        .collective = true,
        .priority = c->priority,
        .group = c->group,
        .volume = (int64_t)(vectors * (double)bytes),
    };
}

/* The work depends on addresses, the bucket and the way to combine, all of which the key tells. */
static struct hd_task make_gpu_task(const struct round *round)
{
    const struct hd_collective *c = &round->collective;
    struct hd_task task = make_task(round, run_on_gpu, round->collective.n_in + 1);
    task.graph_capturable = c->in_spec->type->reduction->graph_capturable;
    task.graph = c->bucket * (HD_MIN + 1) + (int)c->how;
    task.key = round->memory;
    task.key_bytes = (c->n_in + 1) * (int)sizeof round->memory[0];
    return task;
}

/* Returns how many of this rank's instances a collective reads. */
static int inputs_of(const struct round *round)
{
    if (round->collective.kind == HD_COLLECTIVE_BROADCAST)
        return round->session->options.rank == 0;
    return round->collective.n_in;
}

/* The task reads the inputs and writes the output. */
static int submit_part(struct round *round, struct hd_task task, bool reads, bool writes, bool last)
{
    const struct hd_collective *c = &round->collective;
    struct hd_access few[HD_VIEWS_MAX];
    int64_t needed = c->n_in + 1;
    struct hd_access *list = needed <= HD_VIEWS_MAX ? few : hd_alloc(needed, sizeof *list);
    if (!list)
        return HD_ERR_NOMEM;
    int n = 0;
    int bucket = c->kind == HD_COLLECTIVE_REDUCE ? c->bucket : HD_ALL_BUCKETS;
    for (int i = 0; reads && i < inputs_of(round); i++)
        list[n++] = (struct hd_access){c->in_buffers[i], bucket, HD_ALL_PARTIALS, HD_READ};
    if (writes && c->out)
        list[n++] = (struct hd_access){c->out_buffer, bucket, HD_ALL_PARTIALS,
                                       c->n_in > 0 ? HD_WRITE : HD_UPDATE};
    task.accesses = list;
    task.n_accesses = n;
    task.owned = last ? round : NULL;
    int status = hd_submit_task(round->session, &task);
    if (list != few)
        hd_free(list);
    return status;
}

static void set_gather(struct round *round)
{
    const struct hd_collective *c = &round->collective;
    int64_t lo, hi;
    hd_spec_get_bucket(c->out_spec, c->bucket, &lo, &hi);
    round->device_collective = (struct hd_device_collective){.kind = HD_DEVICE_ALL_GATHER,
                                                             .name = c->name,
                                                             .n = hi - lo,
                                                             .data = {(float *)c->out + lo},
                                                             .n_data = 1};
}

static int submit_between_gpus(struct round *round)
{
    const struct hd_collective *c = &round->collective;
    if (c->kind == HD_COLLECTIVE_GATHER) {
        set_gather(round);
    } else {
        set_device_collective(round);
        HD_TRY(submit_part(round, make_task(round, run_operand, 2), true, true, false));
    }
    const struct hd_access result = {c->out_buffer, c->bucket, HD_ALL_PARTIALS, HD_UPDATE};
    const struct hd_sync_point point = {.name = c->name,
                                        .sequence = round->sequence,
                                        .iteration = c->iteration,
                                        .accesses = &result,
                                        .n_accesses = 1,
                                        .priority = c->priority,
                                        .group = c->group,
                                        .device_collective = &round->device_collective,
                                        .owned = round};
    return hd_submit_sync(round->session, &point);
}

static struct hd_sync_point make_point(const struct round *round, int64_t sequence)
{
    const struct hd_collective *c = &round->collective;
    return (struct hd_sync_point){.name = c->name,
                                  .sequence = sequence,
                                  .iteration = c->iteration,
                                  .priority = c->priority,
                                  .group = c->group};
}

static int submit_step(struct round *round, int64_t sequence, enum hd_message_step step)
{
    struct hd_sync_point point = make_point(round, sequence);
    HD_TRY(
        hd_message_list_transfers(round->session->options.comm, &round->collective, step, &point));
    int status = hd_submit_sync(round->session, &point);
    if (status != HD_OK)
        hd_free(point.owned);
    return status;
}

static int submit_wait_on_host(struct round *round, int64_t sequence)
{
    struct hd_sync_point point = make_point(round, sequence);
    point.on_host = true;
    return hd_submit_sync(round->session, &point);
}

static int submit_pair(struct round *round, int k, int64_t sequence)
{
    struct hd_comm *comm = round->session->options.comm;
    const int self = hd_comm_get_rank(comm), pair = hd_message_get_pair(comm, k);
    const int64_t bytes = hd_collective_get_payload_bytes(&round->collective);
    const struct hd_comm_transfer both[] = {
        {pair, true, hd_comm_get_buffer(comm, self, round->exchange), bytes},
        {pair, false, hd_comm_get_buffer(comm, pair, round->exchange), bytes}};
    struct hd_sync_point point = make_point(round, sequence);
    struct hd_comm_transfer *transfers = hd_alloc(2, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    memcpy(transfers, both, sizeof both);
    point.transfers = point.owned = transfers;
    point.n_transfers = 2;
    point.pairs = true;
    int status = hd_submit_sync(round->session, &point);
    if (status != HD_OK) {
        hd_free(transfers);
        return status;
    }
    struct hd_task task = make_task(round, run_add_pair, 3);
    task.context.item = k;
    return submit_part(round, task, false, false, false);
}

/* All ranks count the same numbers, whether they take part in the rounds or not. There is an even
 * number of them after that of the sum, so that the next collective's vectors do not go where ranks
 * of this host may still read it. */
static int submit_pairs(struct round *round)
{
    struct hd_session *session = round->session;
    struct hd_comm *comm = session->options.comm;
    const int ranks = hd_comm_count_host_ranks(comm);
    const bool several = ranks > 1, courier = hd_message_is_courier(comm);
    const int rounds = hd_message_count_rounds(comm);
    round->exchange = round->sequence + several;
    session->next_sequence = round->exchange + rounds + rounds % 2;
    if (several)
        HD_TRY(submit_wait_on_host(round, round->sequence));
    if (several && courier)
        HD_TRY(
            submit_part(round, make_task(round, run_add_vectors, ranks + 1), false, false, false));
    for (int k = 0; k < rounds && courier; k++)
        HD_TRY(submit_pair(round, k, round->exchange + k));
    return several ? submit_wait_on_host(round, session->next_sequence) : HD_OK;
}

static int submit_slices(struct round *round)
{
    struct hd_session *session = round->session;
    const double ranks = hd_comm_count_host_ranks(session->options.comm);
    const double hosts = hd_comm_count_hosts(session->options.comm);
    round->exchange = round->sequence;
    if (ranks > 1) {
        HD_TRY(submit_wait_on_host(round, round->sequence));
        HD_TRY(submit_part(round, make_task(round, run_add_host, (ranks + 1) / ranks), false, false,
                           false));
        round->exchange = ++session->next_sequence;
    }
    HD_TRY(submit_step(round, round->exchange, HD_MESSAGE_SCATTER));
    HD_TRY(submit_part(round, make_task(round, run_add_slice, (hosts + 1) / (hosts * ranks)), false,
                       false, false));
    return submit_step(round, ++session->next_sequence, HD_MESSAGE_GATHER);
}

static int submit_round(struct round *round)
{
    struct hd_session *session = round->session;
    const struct hd_collective *c = &round->collective;
    if (session->options.ranks == 1 && c->home == HD_HOST)
        return submit_part(round, make_task(round, run_alone, c->n_in + 1), true, true, true);
    if (session->options.ranks == 1)
        return submit_part(round, make_gpu_task(round), true, true, true);
    round->sequence = ++session->next_sequence;
    if (c->home != HD_HOST)
        return submit_between_gpus(round);
    round->way = hd_message_choose(&session->options, c);
    HD_TRY(submit_part(round, make_task(round, run_pack, c->n_in + 1), true, false, false));
    if (round->way == HD_MESSAGE_SLICES)
        HD_TRY(submit_slices(round));
    else if (round->way == HD_MESSAGE_PAIRS)
        HD_TRY(submit_pairs(round));
    else
        HD_TRY(submit_step(round, round->sequence, HD_MESSAGE_WHOLE));
    const bool adds = c->kind == HD_COLLECTIVE_REDUCE && round->way == HD_MESSAGE_ALL;
    const int operands = adds ? session->options.ranks : 1;
    return submit_part(round, make_task(round, run_unpack, operands + 1), false, true, true);
}

int hd_submit_collective(struct hd_session *session, const struct hd_collective *c)
{
    struct round *round = make_round(session, c);
    int status = round ? submit_round(round) : HD_ERR_NOMEM;
    if (status == HD_OK)
        return HD_OK;
    hd_session_abandon(session, status, c->name);
    hd_free(round);
    return status;
}
