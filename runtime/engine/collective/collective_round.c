/* SPDX-License-Identifier: Apache-2.0 */
/* All ways of a collective need this: bytes in the transport, of scratch and on a GPU, the tree,
 * and tasks. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/collective/collective_internal.h"

#include <string.h>

/* -- Bytes ------------------------------------------------------------------------------------- */

int64_t hd_collective_get_payload_bytes(const struct hd_collective *c)
{
    switch (c->kind) {
    case HD_COLLECTIVE_REDUCE:
        return hd_align_up(c->rounding ? hd_rounded_get_vector_bytes(c)
                                       : c->in_spec->type->reduction->bytes(c->in_spec, c->bucket));
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
    if (c->rounding)
        return hd_rounded_get_scratch_bytes(c, ranks);
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

/* -- The tree ---------------------------------------------------------------------------------- */

struct reduce {
    const struct hd_collective_round *round;
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
    const struct hd_collective_round *round = ((const struct reduce *)arg)->round;
    return hd_round_get_buffer(round, (int)rank, round->sequence);
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

/* Adds the packed vectors of ranks [first, first + ranks). */
static const void *add_rounded(const struct hd_collective_round *round, int first, int ranks,
                               void *scratch, void *to)
{
    const struct hd_collective *c = &round->collective;
    const void **vectors = (const void **)((char *)scratch + hd_collective_get_payload_bytes(c));
    for (int i = 0; i < ranks; i++)
        vectors[i] = hd_round_get_buffer(round, first + i, round->sequence);
    hd_rounded_add(round, ranks, vectors, 0, hd_rounded_get_vector_bytes(c), scratch, to);
    return to;
}

const void *hd_round_add_instances(const struct hd_collective_round *round, void *levels, void *top)
{
    if (round->collective.rounding) {
        hd_rounded_add_instances(round, levels, top);
        return top;
    }
    struct reduce reduce = {round, levels, top};
    return hd_tree_reduce(0, round->collective.n_in, pack_leaf, combine, &reduce);
}

const void *hd_round_add_ranks(const struct hd_collective_round *round, int first, int ranks,
                               void *levels, void *top)
{
    if (round->collective.rounding)
        return add_rounded(round, first, ranks, levels, top);
    struct reduce reduce = {round, levels, top};
    return hd_tree_reduce(first, first + ranks, rank_leaf, combine, &reduce);
}

/* -- Tasks ------------------------------------------------------------------------------------- */

struct hd_task hd_round_make_task(const struct hd_collective_round *round, hd_body *body,
                                  double vectors)
{
    const struct hd_collective *c = &round->collective;
    const int64_t bytes = c->kind == HD_COLLECTIVE_COMPARE ? c->in_spec->bytes
                          : c->rounding ? c->in_spec->type->reduction->bytes(c->in_spec, c->bucket)
                                        : hd_collective_get_payload_bytes(c);
    return (struct hd_task){
        .verb = c->verb,
        .name = c->name,
        .body = body,
        .args = round,
        .context = {.iteration = c->iteration, .shard = -1},
        .home = c->home,
        .channel = round->channel,
        .priority = c->priority,
        .group = c->group,
        .volume = (int64_t)(vectors * (double)bytes),
    };
}

int hd_round_submit_task(struct hd_collective_round *round, struct hd_task task, bool reads,
                         bool writes, bool last)
{
    const struct hd_collective *c = &round->collective;
    struct hd_access few[HD_VIEWS_MAX];
    const bool broadcast = c->kind == HD_COLLECTIVE_BROADCAST; /* which reads rank 0's instance */
    const int inputs = broadcast ? round->session->options.rank == 0 : c->n_in;
    int64_t needed = 2 * c->n_in + 1;
    struct hd_access *list = needed <= HD_VIEWS_MAX ? few : hd_alloc(needed, sizeof *list);
    if (!list)
        return HD_ERR_NOMEM;
    int n = 0;
    int bucket = c->kind == HD_COLLECTIVE_REDUCE ? c->bucket : HD_ALL_BUCKETS;
    for (int i = 0; reads && i < inputs; i++)
        list[n++] = (struct hd_access){c->in[i].buffer, bucket, HD_ALL_PARTIALS, HD_READ};
    for (int i = 0; reads && c->residuals && i < c->n_in; i++)
        list[n++] = (struct hd_access){c->residuals[i].buffer, bucket, HD_ALL_PARTIALS, HD_UPDATE};
    if (writes && c->out.data)
        list[n++] = (struct hd_access){c->out.buffer, bucket, HD_ALL_PARTIALS,
                                       c->n_in > 0 ? HD_WRITE : HD_UPDATE};
    task.accesses = list;
    task.n_accesses = n;
    task.owned = last ? round : NULL;
    int status = hd_submit_task(round->session, &task);
    if (list != few)
        hd_free(list);
    return status;
}

int hd_round_submit_point(const struct hd_collective_round *round, struct hd_sync_point point)
{
    const struct hd_collective *c = &round->collective;
    point.name = c->name;
    point.channel = round->channel;
    point.iteration = c->iteration;
    point.priority = c->priority;
    point.group = c->group;
    return hd_submit_sync(round->session, &point);
}
