/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/sharded_update.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/session_internal.h"

#include <string.h>

/* The exchange of one part: freed by its last task. */
struct part {
    struct hd_session *session;
    struct hd_sharded_update update;
    int part;
    int64_t lo, hi; /* its elements */
    int64_t groups;
    const float **group; /* [groups]: where the operands of a shard begin; where memory is apart,
                            the sum of a rank's, its block of the tree */
    /* Where memory is apart: */
    bool message_passing;
    const float **own; /* [n_in]: where the operands of this rank's shards begin */
    float *counts;     /* [ranks]: samples in the block of each */
    const float **at;  /* [ranks]: scratch of run_slice */
};

/* A block of sums, one of the own operands' sums, and what `slice` needs. */
int64_t hd_sharded_update_get_scratch_bytes(int64_t scratch_bytes)
{
    return 2 * HD_BLOCK * (int64_t)sizeof(float) + hd_padded(scratch_bytes);
}

/* -- Computing ------------------------------------------------------------------------------------
 */

/* What lies at `mine` on this rank, on rank `rank`. */
static void *on_rank(const struct hd_session *session, int rank, const void *mine)
{
    if (session->options.ranks == 1)
        return (void *)mine;
    return hd_comm_area(session->options.comm, rank) +
           ((const char *)mine - hd_session_area(session));
}

void hd_sharded_update_get_slice(int64_t lo, int64_t hi, int rank, int ranks, int64_t *lo_p,
                                 int64_t *hi_p)
{
    const int64_t blocks = (hi - lo + HD_BLOCK - 1) / HD_BLOCK;
    const int64_t from = lo + blocks * rank / ranks * HD_BLOCK;
    const int64_t to = lo + blocks * (rank + 1) / ranks * HD_BLOCK;
    *lo_p = from < hi ? from : hi;
    *hi_p = to < hi ? to : hi;
}

static void slice_of(const struct part *part, int rank, int64_t *lo_p, int64_t *hi_p)
{
    hd_sharded_update_get_slice(part->lo, part->hi, rank, part->session->options.ranks, lo_p, hi_p);
}

static float partial_weights(const struct part *part, const float *data, int64_t lo, int64_t n)
{
    const struct hd_spec *spec = part->update.operands;
    if (n == 1)
        return spec->type->weight(spec, part->part, data, lo);
    float left = partial_weights(part, data, lo, n / 2);
    return left + partial_weights(part, data, lo + n / 2, n - n / 2);
}

static float group_weights(const struct part *part, const float *const *group, int64_t lo,
                           int64_t n)
{
    if (n == 1)
        return partial_weights(part, group[lo], 0, part->update.operands->partials);
    float left = group_weights(part, group, lo, n / 2);
    return left + group_weights(part, group, lo + n / 2, n - n / 2);
}

static int64_t partial_stride(const struct part *part)
{
    return part->update.operands->bytes / part->update.operands->partials / (int64_t)sizeof(float);
}

/* Elements [lo, hi) of the operands of this rank's shards. */
static void add_own(const struct part *part, int64_t lo, int64_t hi, float *sum)
{
    hd_tree_add(part->update.n_in, part->own, part->update.operands->partials, partial_stride(part),
                lo, hi, sum);
}

static bool has_single_operands(const struct part *part)
{
    return part->update.n_in * part->update.operands->partials == 1;
}

/* Elements [lo, hi) of all operands, at most a block; `room` is a block. */
static void add_all(const struct part *part, int64_t lo, int64_t hi, float *sum, float *room)
{
    const int own = part->session->options.rank;
    if (!part->message_passing) {
        hd_tree_add(part->groups, part->group, part->update.operands->partials,
                    partial_stride(part), lo, hi, sum);
        return;
    }
    for (int64_t rank = 0; rank < part->groups; rank++)
        part->at[rank] = part->group[rank] + lo;
    if (!has_single_operands(part)) {
        add_own(part, lo, hi, room);
        part->at[own] = room;
    }
    hd_tree_add(part->groups, part->at, 1, 0, 0, hi - lo, sum);
}

static float count_all(const struct part *part)
{
    const float *counts = part->counts;
    float count;
    if (!part->message_passing)
        return group_weights(part, part->group, 0, part->groups);
    hd_tree_add(1, &counts, part->groups, 1, 0, 1, &count);
    return count;
}

/* A single operand needs no sum and no cutting into blocks. */
static int run_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct part *part = args;
    const bool single = part->update.operands->partials * part->groups == 1;
    const float count = count_all(part);
    int64_t lo, hi;
    slice_of(part, part->session->options.rank, &lo, &hi);
    const int64_t step = single ? hi - lo : HD_BLOCK;
    float *sum = context->scratch, *room = sum + HD_BLOCK;
    context->scratch = room + HD_BLOCK;
    context->again = false;
    for (int64_t at = lo; at < hi || !context->again; at += step) {
        const int64_t end = at + step < hi ? at + step : hi;
        if (!single)
            add_all(part, at, end, sum, room);
        HD_TRY(part->update.slice(context, views, part->update.args, at, end,
                                  single ? part->group[0] + at : sum, count));
        context->again = true;
    }
    return HD_OK;
}

/* Before operands are sent: every other rank's slice of their sum is put where nothing comes in,
 * the room for that rank's operands. */
static int run_block(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct part *part = args;
    const struct hd_session_options *options = &part->session->options;
    part->counts[options->rank] = group_weights(part, part->own, 0, part->update.n_in);
    for (int rank = 0; rank < options->ranks && !has_single_operands(part); rank++) {
        int64_t lo, hi;
        slice_of(part, rank, &lo, &hi);
        if (rank != options->rank)
            add_own(part, lo, hi, (float *)on_rank(part->session, rank, part->own[0]) + lo);
    }
    return HD_OK;
}

static int run_copy(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context;
    const struct part *part = args;
    const struct hd_session_options *options = &part->session->options;
    for (int rank = 0; rank < options->ranks; rank++) {
        int64_t lo, hi;
        slice_of(part, rank, &lo, &hi);
        for (int i = 1; i < part->update.n && rank != options->rank && lo < hi; i++)
            if (part->update.wanted_whole[i])
                HD_TRY(hd_value_copy_range(views[i].spec, lo, hi, views[i].data,
                                           on_rank(part->session, rank, views[i].data)));
    }
    return HD_OK;
}

/* -- Submitting -----------------------------------------------------------------------------------
 */

/* Where the operands of each shard begin, or of each rank, which are added when they arrive. */
static void find_groups(struct part *part)
{
    for (int i = 0; i < part->update.n_in; i++)
        part->own[i] = part->update.in[i];
    const int shards = part->message_passing ? 1 : part->update.n_in;
    for (int rank = 0; rank < part->session->options.ranks; rank++)
        for (int i = 0; i < shards; i++)
            part->group[part->groups++] = on_rank(part->session, rank, part->update.in[i]);
}

static struct part *make_part(struct hd_session *session, const struct hd_sharded_update *update,
                              int number)
{
    const int64_t ranks = session->options.ranks, groups = ranks * update->n_in;
    const size_t pointers = (size_t)(groups + ranks + update->n_in) * sizeof(float *);
    struct part *part = hd_alloc(1, sizeof *part + pointers + (size_t)ranks * sizeof(float));
    if (!part)
        return NULL;
    part->session = session;
    part->update = *update;
    part->part = number;
    part->message_passing = ranks > 1 && hd_comm_is_message_passing(session->options.comm);
    part->group = (const float **)(part + 1);
    part->at = part->group + groups;
    part->own = part->at + ranks;
    part->counts = (float *)(part->own + update->n_in);
    hd_spec_part(update->operands, number, &part->lo, &part->hi);
    find_groups(part);
    for (int i = 0; i < update->n; i++)
        part->update.views[i].part = number;
    return part;
}

/* What every task of a part holds: the values that the step touches, and the operands if asked. The
 * list is the caller's to free. */
static int list_accesses(const struct part *part, bool operands, struct hd_access **list_p,
                         int *n_p)
{
    const struct hd_sharded_update *update = &part->update;
    struct hd_access *list = hd_alloc(update->n + update->n_in, sizeof *list);
    int n = 0;
    if (!list)
        return HD_ERR_NOMEM;
    for (int i = 1; i < update->n; i++) {
        const struct hd_buffer *buffer = update->buffers[i];
        bool cut = buffer && buffer->parts == update->operands->parts;
        list[n++] = (struct hd_access){update->buffers[i], cut ? part->part : HD_ALL_PARTS,
                                       HD_ALL_PARTIALS, update->modes[i]};
    }
    for (int i = 0; operands && i < update->n_in; i++)
        list[n++] = (struct hd_access){update->in_buffers[i], part->part, HD_ALL_PARTIALS, HD_READ};
    *list_p = list;
    *n_p = n;
    return HD_OK;
}

/* The last elements of the flat array, which backward finishes last, are the first that the next
 * forward needs. */
static int priority_of(const struct part *part)
{
    return HD_PRIORITY_FIRST + part->part;
}

static int submit_task(struct part *part,
                       int (*body)(struct hd_context *, const struct hd_view *, const void *),
                       bool operands, bool last)
{
    const struct hd_sharded_update *update = &part->update;
    struct hd_task task = {.verb = update->verb,
                           .name = update->name,
                           .body = body,
                           .args = part,
                           .owned = last ? part : NULL,
                           .context = update->context,
                           .n = update->n,
                           .priority = priority_of(part),
                           .group = update->group};
    struct hd_access *accesses;
    memcpy(task.views, update->views, sizeof task.views);
    HD_TRY(list_accesses(part, operands, &accesses, &task.n_accesses));
    task.accesses = accesses;
    int status = hd_submit(part->session, &task);
    hd_free(accesses);
    return status;
}

/* -- What moves where memory is apart -------------------------------------------------------------
 */

static struct hd_comm_transfer make_transfer(int rank, bool out, void *data, int64_t lo, int64_t hi)
{
    return (struct hd_comm_transfer){rank, out, (float *)data + lo,
                                     (hi - lo) * (int64_t)sizeof(float)};
}

/* A: slices of the operands to whom they are for, with how many samples are in them. */
static int list_operand_transfers(const struct part *part, int rank,
                                  struct hd_comm_transfer *transfers)
{
    const int own = part->session->options.rank;
    void *here = part->update.in[0], *there = on_rank(part->session, rank, here);
    int64_t lo, hi, own_lo, own_hi;
    slice_of(part, rank, &lo, &hi);
    slice_of(part, own, &own_lo, &own_hi);
    transfers[0] = make_transfer(rank, true, has_single_operands(part) ? here : there, lo, hi);
    transfers[1] = make_transfer(rank, true, part->counts, own, own + 1);
    transfers[2] = make_transfer(rank, false, there, own_lo, own_hi);
    transfers[3] = make_transfer(rank, false, part->counts, rank, rank + 1);
    return 4;
}

/* B: own slices of what is wanted whole to all. */
static int list_result_transfers(const struct part *part, int rank,
                                 struct hd_comm_transfer *transfers)
{
    int64_t lo, hi, own_lo, own_hi;
    int n = 0;
    slice_of(part, rank, &lo, &hi);
    slice_of(part, part->session->options.rank, &own_lo, &own_hi);
    for (int i = 1; i < part->update.n; i++) {
        if (!part->update.wanted_whole[i])
            continue;
        void *here = part->update.views[i].data;
        transfers[n++] = make_transfer(rank, true, here, own_lo, own_hi);
        transfers[n++] = make_transfer(rank, false, on_rank(part->session, rank, here), lo, hi);
    }
    return n;
}

static int list_transfers(const struct part *part,
                          int (*list)(const struct part *, int, struct hd_comm_transfer *),
                          struct hd_sync_point *point)
{
    enum { MOST = 2 * HD_VIEWS_MAX > 4 ? 2 * HD_VIEWS_MAX : 4 };
    const struct hd_session_options *options = &part->session->options;
    struct hd_comm_transfer *transfers =
        hd_alloc((int64_t)MOST * options->ranks, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    for (int rank = 0; rank < options->ranks; rank++)
        if (rank != options->rank)
            point->n_transfers += list(part, rank, transfers + point->n_transfers);
    point->transfers = point->owned = transfers;
    return HD_OK;
}

static int submit_sync(struct part *part,
                       int (*list)(const struct part *, int, struct hd_comm_transfer *))
{
    struct hd_access *accesses;
    struct hd_sync_point point = {.name = part->update.labels[part->part],
                                  .sequence = ++part->session->next_sequence,
                                  .iteration = part->update.context.iteration,
                                  .priority = priority_of(part),
                                  .group = part->update.group};
    if (part->message_passing)
        HD_TRY(list_transfers(part, list, &point));
    int status = list_accesses(part, true, &accesses, &point.n_accesses);
    if (status == HD_OK) {
        point.accesses = accesses;
        status = hd_submit_sync(part->session, &point);
        hd_free(accesses);
    }
    if (status != HD_OK)
        hd_free(point.owned);
    return status;
}

static int begin_part(struct part *part)
{
    if (part->message_passing)
        HD_TRY(submit_task(part, run_block, true, false));
    HD_TRY(submit_sync(part, list_operand_transfers));
    return submit_task(part, run_slice, true, false);
}

static int end_part(struct part *part)
{
    HD_TRY(submit_sync(part, list_result_transfers));
    return submit_task(part, run_copy, false, true);
}

/* open: the part that is being submitted, and the one before, which is not through; or NULL. */
static int submit_parts(struct hd_session *session, const struct hd_sharded_update *update,
                        struct part *open[2])
{
    for (int number = 0; number < update->operands->parts; number++) {
        struct part *part = open[0] = make_part(session, update, number);
        if (!part)
            return HD_ERR_NOMEM;
        if (session->options.ranks == 1) {
            HD_TRY(submit_task(part, run_slice, true, true));
        } else {
            HD_TRY(begin_part(part));
            if (open[1])
                HD_TRY(end_part(open[1]));
            open[1] = part;
        }
        open[0] = NULL;
    }
    return open[1] ? end_part(open[1]) : HD_OK;
}

int hd_submit_sharded_update(struct hd_session *session, const struct hd_sharded_update *update)
{
    struct part *open[2] = {NULL, NULL};
    int status = submit_parts(session, update, open);
    if (status == HD_OK)
        return HD_OK;
    hd_session_abandon(session, status, update->name);
    hd_free(open[0]);
    hd_free(open[1]);
    return status;
}
