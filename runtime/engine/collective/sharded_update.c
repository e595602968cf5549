/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/engine/collective/sharded_update_internal.h"

#include <string.h>

/* The scratch holds a block of sums, a block of the own operands' sums, and that of update_slice.
 */
int64_t hd_sharded_update_get_scratch_bytes(int64_t scratch_bytes)
{
    return 2 * HD_BLOCK * (int64_t)sizeof(float) + hd_align_up(scratch_bytes);
}

/* -- Tasks ------------------------------------------------------------------------------------- */

/* A single operand needs no sum and no cutting into blocks. */
static int run_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct hd_update_bucket *bucket = args;
    const bool single = bucket->update.operands->partials * bucket->groups == 1;
    const float count = hd_update_count(bucket);
    const struct hd_elements slice = hd_update_get_slice(bucket, bucket->session->options.rank);
    const int64_t step = single ? slice.hi - slice.lo : HD_BLOCK;
    float *sum = context->scratch, *buffer = sum + HD_BLOCK;
    context->scratch = buffer + HD_BLOCK;
    context->again = false;
    for (int64_t at = slice.lo; at < slice.hi || !context->again; at += step) {
        const int64_t end = at + step < slice.hi ? at + step : slice.hi;
        if (!single)
            hd_update_add(bucket, at, end, sum, buffer);
        HD_TRY(bucket->update.update_slice(context, views, bucket->update.args, at, end,
                                           single ? bucket->group[0] + at : sum, count));
        context->again = true;
    }
    return HD_OK;
}

/* Brings the results of other ranks to this rank's values. Floats that are there already only renew
 * what is derived from them. */
static int run_copy(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context;
    const struct hd_update_bucket *bucket = args;
    const struct hd_session_options *options = &bucket->session->options;
    for (int rank = 0; rank < options->ranks; rank++) {
        const int at = hd_update_find_results(bucket, rank);
        const struct hd_elements slice = hd_update_get_slice(bucket, rank);
        if (rank == options->rank || slice.lo == slice.hi)
            continue;
        for (int i = 1; i < bucket->update.n; i++)
            if (bucket->update.wanted_whole[i])
                HD_TRY(
                    hd_value_copy_range(views[i].spec, slice.lo, slice.hi, views[i].data,
                                        hd_update_get_place(bucket->session, at, views[i].data)));
    }
    return HD_OK;
}

/* -- Submitting -------------------------------------------------------------------------------- */

/* Lists what the tasks of a bucket hold: the values that the step touches, and the operands,
 * between hosts as if they were changed, because sums lie in the memory of their partners'. */
static void list_accesses(struct hd_update_bucket *bucket)
{
    const struct hd_sharded_update *update = &bucket->update;
    struct hd_access *list = bucket->accesses;
    for (int i = 1; i < update->n; i++) {
        const struct hd_buffer *buffer = update->accesses[i].buffer;
        *list = update->accesses[i];
        if (buffer && buffer->buckets == update->operands->buckets)
            list->bucket = bucket->index;
        list++;
    }
    for (int i = 0; i < update->n_in; i++)
        *list++ = (struct hd_access){update->in[i].buffer, bucket->index, HD_ALL_PARTIALS,
                                     bucket->by_host ? HD_UPDATE : HD_READ};
}

static struct hd_update_bucket *make_bucket(struct hd_session *session,
                                            const struct hd_sharded_update *update, int number)
{
    const int64_t ranks = session->options.ranks, groups = ranks * update->n_in;
    const int accesses = update->n + update->n_in;
    struct hd_update_bucket *bucket = hd_alloc(
        1, sizeof *bucket + (size_t)accesses * sizeof *bucket->accesses +
               (size_t)(groups + ranks + groups) * sizeof(float *) + (size_t)ranks * sizeof(float));
    if (!bucket)
        return NULL;
    bucket->session = session;
    bucket->update = *update;
    bucket->index = number;
    bucket->channel =
        hd_session_get_channel(session, hd_channels_choose(&update->channels, number));
    bucket->group = (const float **)(bucket->accesses + accesses);
    bucket->at = bucket->group + groups;
    bucket->local = bucket->at + ranks;
    bucket->counts = (float *)(bucket->local + groups);
    hd_spec_get_bucket(update->operands, number, &bucket->lo, &bucket->hi);
    hd_update_choose_way(bucket);
    list_accesses(bucket);
    for (int i = 0; i < update->n; i++)
        bucket->update.views[i].bucket = number;
    return bucket;
}

/* The last elements of the flat array, which backward finishes last, are the first that the next
 * forward needs. */
static int priority_of(const struct hd_update_bucket *bucket)
{
    return HD_PRIORITY_FIRST + bucket->index;
}

/* -- Volumes of tasks, as arrays of floats times their elements -------------------------------- */

static int64_t count_slice(const struct hd_update_bucket *bucket)
{
    const struct hd_elements slice = hd_update_get_slice(bucket, bucket->session->options.rank);
    return slice.hi - slice.lo;
}

/* Besides the operands, an optimizer reads and writes about as much as Adam does: the parameters
 * and two moments, and its sum. */
static int64_t get_slice_volume(const struct hd_update_bucket *bucket)
{
    enum { OPTIMIZER_ARRAYS = 8, HALVES = 2 };
    const int64_t operands = bucket->pairs     ? HALVES
                             : bucket->by_host ? bucket->groups + hd_update_count_local(bucket)
                                               : bucket->groups * bucket->update.operands->partials;
    return (operands + OPTIMIZER_ARRAYS) * count_slice(bucket);
}

/* By halving a rank adds its own slice beforehand, too. */
static int64_t get_partial_sums_volume(const struct hd_update_bucket *bucket)
{
    const int64_t slices = bucket->groups - !bucket->pairs;
    const int64_t operands = hd_update_count_local(bucket);
    return operands == 1 ? 0 : (operands + 1) * slices * count_slice(bucket);
}

/* Round k leaves a rank with so many slices. */
static int64_t get_round_volume(const struct hd_update_bucket *bucket, int k)
{
    enum { OPERANDS_AND_SUM = 3 };
    return OPERANDS_AND_SUM * (bucket->groups >> (k + 1)) * count_slice(bucket);
}

static int count_wanted(const struct hd_update_bucket *bucket)
{
    int wanted = 0;
    for (int i = 1; i < bucket->update.n; i++)
        wanted += bucket->update.wanted_whole[i];
    return wanted;
}

static int64_t get_copy_volume(const struct hd_update_bucket *bucket)
{
    return 2 * count_wanted(bucket) * (bucket->hi - bucket->lo - count_slice(bucket));
}

/* item: context->item of the body. The last task of several ranks leaves the operands alone. */
static int submit_task(struct hd_update_bucket *bucket, hd_body *body, int item, int64_t volume,
                       bool last)
{
    const struct hd_sharded_update *update = &bucket->update;
    const bool reads = !last || bucket->session->options.ranks == 1;
    struct hd_task task = {.verb = update->verb,
                           .name = update->name,
                           .body = body,
                           .args = bucket,
                           .owned = last ? bucket : NULL,
                           .context = update->context,
                           .n = update->n,
                           .accesses = bucket->accesses,
                           .n_accesses = update->n - 1 + (reads ? update->n_in : 0),
                           .priority = priority_of(bucket),
                           .group = update->group,
                           .volume = volume * (int64_t)sizeof(float)};
    task.context.item = item;
    memcpy(task.views, update->views, sizeof task.views);
    return hd_submit_task(bucket->session, &task);
}

static int submit_point(struct hd_update_bucket *bucket, struct hd_sync_point point)
{
    point.name = bucket->update.labels[bucket->index];
    point.channel = bucket->channel;
    point.sequence = ++bucket->channel->next_sequence;
    point.iteration = bucket->update.context.iteration;
    point.accesses = bucket->accesses;
    point.n_accesses = bucket->update.n - 1 + bucket->update.n_in;
    point.priority = priority_of(bucket);
    point.group = bucket->update.group;
    return hd_submit_sync(bucket->session, &point);
}

/* Submits round k of A or B, with the transfers that `list` lists. */
static int submit_round(struct hd_update_bucket *bucket, int k,
                        int (*list)(const struct hd_update_bucket *, int,
                                    struct hd_comm_transfer *))
{
    struct hd_sync_point point = {.pairs = bucket->pairs};
    if (!bucket->by_host)
        return submit_point(bucket, point);
    const int64_t partners = bucket->pairs ? 1 : bucket->groups - 1;
    struct hd_comm_transfer *transfers =
        hd_alloc(HD_UPDATE_TRANSFERS_MAX * partners, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    point.n_transfers = list(bucket, k, transfers);
    point.transfers = point.owned = transfers;
    int status = submit_point(bucket, point);
    if (status != HD_OK)
        hd_free(transfers);
    return status;
}

/* The ranks of this host wait for each other. */
static int submit_wait_on_host(struct hd_update_bucket *bucket)
{
    if (!bucket->by_host || hd_comm_count_host_ranks(bucket->session->options.comm) == 1)
        return HD_OK;
    return submit_point(bucket, (struct hd_sync_point){.on_host = true});
}

static int begin_bucket(struct hd_update_bucket *bucket)
{
    HD_TRY(submit_wait_on_host(bucket));
    return bucket->by_host
               ? submit_task(bucket, hd_update_add_host, 0, get_partial_sums_volume(bucket), false)
               : HD_OK;
}

/* Round k of A, and what is done with what it brought. */
static int submit_a(struct hd_update_bucket *bucket, int k)
{
    HD_TRY(submit_round(bucket, k, hd_update_list_operands));
    if (k < bucket->rounds - 1)
        return submit_task(bucket, hd_update_add_half, k, get_round_volume(bucket, k), false);
    return submit_task(bucket, run_slice, 0, get_slice_volume(bucket), false);
}

/* A pair that has nothing to exchange need not meet. */
static int submit_b(struct hd_update_bucket *bucket, int k)
{
    if (bucket->pairs && count_wanted(bucket) == 0)
        return HD_OK;
    return submit_round(bucket, k, hd_update_list_results);
}

static int end_bucket(struct hd_update_bucket *bucket)
{
    if (bucket->pairs)
        HD_TRY(submit_wait_on_host(bucket));
    return submit_task(bucket, run_copy, 0, get_copy_volume(bucket), true);
}

/* Submits the rounds of A of open[0] and of B of open[1], in turns; either may be NULL. */
static int submit_rounds(struct hd_update_bucket *open[2])
{
    for (int k = 0; (open[0] && k < open[0]->rounds) || open[1]; k++) {
        if (open[0] && k < open[0]->rounds)
            HD_TRY(submit_a(open[0], k));
        if (!open[1])
            continue;
        HD_TRY(submit_b(open[1], k));
        if (k < open[1]->rounds - 1)
            continue;
        HD_TRY(end_bucket(open[1]));
        open[1] = NULL; /* its last task frees it */
    }
    return HD_OK;
}

/* open: the bucket that is being submitted, and the one before, whose sync points B are yet to be;
 * or NULL. */
static int submit_buckets(struct hd_session *session, const struct hd_sharded_update *update,
                          struct hd_update_bucket *open[2])
{
    for (int number = 0; number < update->operands->buckets; number++) {
        open[0] = make_bucket(session, update, number);
        if (!open[0])
            return HD_ERR_NOMEM;
        if (session->options.ranks == 1) {
            HD_TRY(submit_task(open[0], run_slice, 0, get_slice_volume(open[0]), true));
        } else {
            HD_TRY(begin_bucket(open[0]));
            HD_TRY(submit_rounds(open));
            open[1] = open[0];
        }
        open[0] = NULL;
    }
    return submit_rounds(open);
}

int hd_submit_sharded_update(struct hd_session *session, const struct hd_sharded_update *update)
{
    struct hd_update_bucket *open[2] = {NULL, NULL};
    int status = submit_buckets(session, update, open);
    if (status == HD_OK)
        return HD_OK;
    hd_session_abandon(session, status, update->name);
    hd_free(open[0]);
    hd_free(open[1]);
    return status;
}
