/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/collective/sharded_update.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/submit_internal.h"

#include <string.h>

/* The work on one bucket; its last task frees it. */
struct bucket {
    struct hd_session *session;
    const struct bucket_ops *ops;
    struct hd_sharded_update update;
    int index;
    int64_t lo, hi; /* its elements */
    int64_t groups;
    const float **group; /* [groups]: where the operands of a shard begin, or,
                            if ops->by_host, the sum of a host's, its block of the tree */
    /* Under message passing: */
    const float **local; /* [n_local]: where the operands of this host's shards begin */
    int n_local;
    float *counts;    /* [hosts]: samples in the block of each */
    const float **at; /* [hosts]: scratch of run_slice */
};

/* The way in which the ranks' operands and results come together. */
struct bucket_ops {
    bool by_host; /* every host's operands are added first */
    int (*add_local)(struct hd_context *context, const struct hd_view *views,
                     const void *args); /* a task that does so; or NULL */
    /* Adds elements [lo, hi) of all operands, at most a block; `buffer` is a block. */
    void (*add)(const struct bucket *bucket, int64_t lo, int64_t hi, float *sum, float *buffer);
    float (*count)(const struct bucket *bucket); /* the samples in all operands */
    /* List the transfers with the partner on another host at sync points A and B; NULL: memory is
     * shared. */
    int (*list_operands)(const struct bucket *bucket, int host, struct hd_comm_transfer *transfers);
    int (*list_results)(const struct bucket *bucket, int host, struct hd_comm_transfer *transfers);
};

/* The scratch holds a block of sums, a block of the own operands' sums, and that of update_slice.
 */
int64_t hd_sharded_update_get_scratch_bytes(int64_t scratch_bytes)
{
    return 2 * HD_BLOCK * (int64_t)sizeof(float) + hd_align_up(scratch_bytes);
}

/* -- Slices ------------------------------------------------------------------------------------ */

/* Returns the place in the area of rank `rank` that `local` is in this rank's. */
static void *on_rank(const struct hd_session *session, int rank, const void *local)
{
    if (session->options.ranks == 1)
        return (void *)local;
    return hd_comm_get_area(session->options.comm, rank) +
           ((const char *)local - hd_session_get_area(session));
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

static void slice_of(const struct bucket *bucket, int rank, int64_t *lo_p, int64_t *hi_p)
{
    hd_sharded_update_get_slice(bucket->lo, bucket->hi, rank, bucket->session->options.ranks, lo_p,
                                hi_p);
}

/* -- Shared memory: the operands of all shards are added where they lie ------------------------ */

static int64_t partial_stride(const struct bucket *bucket)
{
    return bucket->update.operands->bytes / bucket->update.operands->partials /
           (int64_t)sizeof(float);
}

static void add_shared(const struct bucket *bucket, int64_t lo, int64_t hi, float *sum,
                       float *buffer)
{
    (void)buffer;
    hd_tree_add(bucket->groups, bucket->group, bucket->update.operands->partials,
                partial_stride(bucket), lo, hi, sum);
}

static float partial_weights(const struct bucket *bucket, const float *data, int64_t lo, int64_t n)
{
    const struct hd_spec *spec = bucket->update.operands;
    if (n == 1)
        return spec->type->weight(spec, bucket->index, data, lo);
    float left = partial_weights(bucket, data, lo, n / 2);
    return left + partial_weights(bucket, data, lo + n / 2, n - n / 2);
}

static float group_weights(const struct bucket *bucket, const float *const *group, int64_t lo,
                           int64_t n)
{
    if (n == 1)
        return partial_weights(bucket, group[lo], 0, bucket->update.operands->partials);
    float left = group_weights(bucket, group, lo, n / 2);
    return left + group_weights(bucket, group, lo + n / 2, n - n / 2);
}

static float count_shared(const struct bucket *bucket)
{
    return group_weights(bucket, bucket->group, 0, bucket->groups);
}

static const struct bucket_ops shared_memory = {.add = add_shared, .count = count_shared};

/* -- Message passing: every host's operands are added before sums are sent --------------------- */

static int partner_on(const struct bucket *bucket, int host)
{
    return hd_comm_get_partner(bucket->session->options.comm, host);
}

static int host_of(const struct bucket *bucket)
{
    return hd_comm_get_host(bucket->session->options.comm);
}

/* Adds elements [lo, hi) of the operands of this host's shards. */
static void add_local(const struct bucket *bucket, int64_t lo, int64_t hi, float *sum)
{
    hd_tree_add(bucket->n_local, bucket->local, bucket->update.operands->partials,
                partial_stride(bucket), lo, hi, sum);
}

static bool has_single_operands(const struct bucket *bucket)
{
    return bucket->n_local * bucket->update.operands->partials == 1;
}

/* Runs before sums are sent. Puts every partner's slice of the sum where no message arrives, at
 * that slice of the memory for that partner's operands. */
static int run_partial_sums(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)context, (void)views;
    const struct bucket *bucket = args;
    const int hosts = hd_comm_count_hosts(bucket->session->options.comm), own = host_of(bucket);
    bucket->counts[own] = group_weights(bucket, bucket->local, 0, bucket->n_local);
    for (int host = 0; host < hosts && !has_single_operands(bucket); host++) {
        const int partner = partner_on(bucket, host);
        int64_t lo, hi;
        slice_of(bucket, partner, &lo, &hi);
        if (host != own)
            add_local(bucket, lo, hi,
                      (float *)on_rank(bucket->session, partner, bucket->update.in[0]) + lo);
    }
    return HD_OK;
}

static void add_received(const struct bucket *bucket, int64_t lo, int64_t hi, float *sum,
                         float *buffer)
{
    for (int64_t host = 0; host < bucket->groups; host++)
        bucket->at[host] = bucket->group[host] + lo;
    if (!has_single_operands(bucket)) {
        add_local(bucket, lo, hi, buffer);
        bucket->at[host_of(bucket)] = buffer;
    }
    hd_tree_add(bucket->groups, bucket->at, 1, 0, 0, hi - lo, sum);
}

static float count_received(const struct bucket *bucket)
{
    const float *counts = bucket->counts;
    float count;
    hd_tree_add(1, &counts, bucket->groups, 1, 0, 1, &count);
    return count;
}

static struct hd_comm_transfer make_transfer(int rank, bool out, void *data, int64_t lo, int64_t hi)
{
    return (struct hd_comm_transfer){rank, out, (float *)data + lo,
                                     (hi - lo) * (int64_t)sizeof(float)};
}

/* At A, sends a partner its slice of the host's sum with the number of samples in it. */
static int list_operand_transfers(const struct bucket *bucket, int host,
                                  struct hd_comm_transfer *transfers)
{
    const int partner = partner_on(bucket, host), own = host_of(bucket);
    void *here = bucket->update.in[0], *there = on_rank(bucket->session, partner, here);
    int64_t lo, hi, local_lo, local_hi;
    slice_of(bucket, partner, &lo, &hi);
    slice_of(bucket, bucket->session->options.rank, &local_lo, &local_hi);
    transfers[0] = make_transfer(partner, true, has_single_operands(bucket) ? here : there, lo, hi);
    transfers[1] = make_transfer(partner, true, bucket->counts, own, own + 1);
    transfers[2] = make_transfer(partner, false, there, local_lo, local_hi);
    transfers[3] = make_transfer(partner, false, bucket->counts, host, host + 1);
    return 4;
}

/* At B, sends the own slices of the results that every rank needs whole. */
static int list_result_transfers(const struct bucket *bucket, int host,
                                 struct hd_comm_transfer *transfers)
{
    const int partner = partner_on(bucket, host);
    int64_t lo, hi, local_lo, local_hi;
    int n = 0;
    slice_of(bucket, partner, &lo, &hi);
    slice_of(bucket, bucket->session->options.rank, &local_lo, &local_hi);
    for (int i = 1; i < bucket->update.n; i++) {
        if (!bucket->update.wanted_whole[i])
            continue;
        void *here = bucket->update.views[i].data;
        transfers[n++] = make_transfer(partner, true, here, local_lo, local_hi);
        transfers[n++] =
            make_transfer(partner, false, on_rank(bucket->session, partner, here), lo, hi);
    }
    return n;
}

static const struct bucket_ops message_passing = {.by_host = true,
                                                  .add_local = run_partial_sums,
                                                  .add = add_received,
                                                  .count = count_received,
                                                  .list_operands = list_operand_transfers,
                                                  .list_results = list_result_transfers};

/* -- Tasks ------------------------------------------------------------------------------------- */

/* A single operand needs no sum and no cutting into blocks. */
static int run_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct bucket *bucket = args;
    const bool single = bucket->update.operands->partials * bucket->groups == 1;
    const float count = bucket->ops->count(bucket);
    int64_t lo, hi;
    slice_of(bucket, bucket->session->options.rank, &lo, &hi);
    const int64_t step = single ? hi - lo : HD_BLOCK;
    float *sum = context->scratch, *buffer = sum + HD_BLOCK;
    context->scratch = buffer + HD_BLOCK;
    context->again = false;
    for (int64_t at = lo; at < hi || !context->again; at += step) {
        const int64_t end = at + step < hi ? at + step : hi;
        if (!single)
            bucket->ops->add(bucket, at, end, sum, buffer);
        HD_TRY(bucket->update.update_slice(context, views, bucket->update.args, at, end,
                                           single ? bucket->group[0] + at : sum, count));
        context->again = true;
    }
    return HD_OK;
}

static int run_copy(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context;
    const struct bucket *bucket = args;
    const struct hd_session_options *options = &bucket->session->options;
    for (int rank = 0; rank < options->ranks; rank++) {
        int64_t lo, hi;
        slice_of(bucket, rank, &lo, &hi);
        for (int i = 1; i < bucket->update.n && rank != options->rank && lo < hi; i++)
            if (bucket->update.wanted_whole[i])
                HD_TRY(hd_value_copy_range(views[i].spec, lo, hi, views[i].data,
                                           on_rank(bucket->session, rank, views[i].data)));
    }
    return HD_OK;
}

/* -- Submitting -------------------------------------------------------------------------------- */

/* Lists where the operands of the shards of ranks [first, first + ranks) begin. */
static int list_operands(const struct bucket *bucket, int first, int ranks, const float **operands)
{
    int n = 0;
    for (int rank = first; rank < first + ranks; rank++)
        for (int i = 0; i < bucket->update.n_in; i++)
            operands[n++] = on_rank(bucket->session, rank, bucket->update.in[i]);
    return n;
}

/* Lists where the operands of each shard begin, or the sums of each host. */
static void find_groups(struct bucket *bucket, const struct hd_session_options *options)
{
    if (!bucket->ops->by_host) {
        bucket->groups = list_operands(bucket, 0, options->ranks, bucket->group);
        return;
    }
    const int ranks = hd_comm_count_host_ranks(options->comm);
    bucket->n_local =
        list_operands(bucket, hd_comm_get_first_rank(options->comm), ranks, bucket->local);
    bucket->groups = hd_comm_count_hosts(options->comm);
    for (int host = 0; host < bucket->groups; host++)
        bucket->group[host] =
            on_rank(bucket->session, partner_on(bucket, host), bucket->update.in[0]);
}

static struct bucket *make_bucket(struct hd_session *session,
                                  const struct hd_sharded_update *update, int number)
{
    const int64_t ranks = session->options.ranks, groups = ranks * update->n_in;
    const size_t pointers = (size_t)(groups + ranks + groups) * sizeof(float *);
    struct bucket *bucket = hd_alloc(1, sizeof *bucket + pointers + (size_t)ranks * sizeof(float));
    if (!bucket)
        return NULL;
    bucket->session = session;
    bucket->update = *update;
    bucket->index = number;
    bucket->ops = ranks > 1 && hd_comm_count_hosts(session->options.comm) > 1 ? &message_passing
                                                                              : &shared_memory;
    bucket->group = (const float **)(bucket + 1);
    bucket->at = bucket->group + groups;
    bucket->local = bucket->at + ranks;
    bucket->counts = (float *)(bucket->local + groups);
    hd_spec_get_bucket(update->operands, number, &bucket->lo, &bucket->hi);
    find_groups(bucket, &session->options);
    for (int i = 0; i < update->n; i++)
        bucket->update.views[i].bucket = number;
    return bucket;
}

/* Lists what every task of a bucket holds: the values that the step touches, and the operands if
 * asked. The caller frees the list. */
static int list_accesses(const struct bucket *bucket, bool operands, struct hd_access **list_p,
                         int *n_p)
{
    const struct hd_sharded_update *update = &bucket->update;
    struct hd_access *list = hd_alloc(update->n + update->n_in, sizeof *list);
    int n = 0;
    if (!list)
        return HD_ERR_NOMEM;
    for (int i = 1; i < update->n; i++) {
        const struct hd_buffer *buffer = update->buffers[i];
        bool cut = buffer && buffer->buckets == update->operands->buckets;
        list[n++] = (struct hd_access){update->buffers[i], cut ? bucket->index : HD_ALL_BUCKETS,
                                       HD_ALL_PARTIALS, update->modes[i]};
    }
    for (int i = 0; operands && i < update->n_in; i++)
        list[n++] =
            (struct hd_access){update->in_buffers[i], bucket->index, HD_ALL_PARTIALS, HD_READ};
    *list_p = list;
    *n_p = n;
    return HD_OK;
}

/* The last elements of the flat array, which backward finishes last, are the first that the next
 * forward needs. */
static int priority_of(const struct bucket *bucket)
{
    return HD_PRIORITY_FIRST + bucket->index;
}

/* -- Volumes of tasks, as arrays of floats times their elements -------------------------------- */

static int64_t count_slice(const struct bucket *bucket)
{
    int64_t lo, hi;
    slice_of(bucket, bucket->session->options.rank, &lo, &hi);
    return hi - lo;
}

static int64_t count_local_operands(const struct bucket *bucket)
{
    return bucket->n_local * bucket->update.operands->partials;
}

/* Besides the operands, an optimizer reads and writes about as much as Adam does: the parameters
 * and two moments, and its sum. */
static int64_t get_slice_volume(const struct bucket *bucket)
{
    enum { OPTIMIZER_ARRAYS = 8 };
    const int64_t operands = bucket->ops->by_host
                                 ? bucket->groups + count_local_operands(bucket)
                                 : bucket->groups * bucket->update.operands->partials;
    return (operands + OPTIMIZER_ARRAYS) * count_slice(bucket);
}

static int64_t get_partial_sums_volume(const struct bucket *bucket)
{
    const int64_t hosts = bucket->groups - 1;
    return has_single_operands(bucket)
               ? 0
               : (count_local_operands(bucket) + 1) * hosts * count_slice(bucket);
}

static int64_t get_copy_volume(const struct bucket *bucket)
{
    int64_t wanted = 0;
    for (int i = 1; i < bucket->update.n; i++)
        wanted += bucket->update.wanted_whole[i];
    return 2 * wanted * (bucket->hi - bucket->lo - count_slice(bucket));
}

static int submit_task(struct bucket *bucket,
                       int (*body)(struct hd_context *, const struct hd_view *, const void *),
                       int64_t volume, bool operands, bool last)
{
    const struct hd_sharded_update *update = &bucket->update;
    struct hd_task task = {.verb = update->verb,
                           .name = update->name,
                           .body = body,
                           .args = bucket,
                           .owned = last ? bucket : NULL,
                           .context = update->context,
                           .n = update->n,
                           .priority = priority_of(bucket),
                           .group = update->group,
                           .volume = volume * (int64_t)sizeof(float)};
    struct hd_access *accesses;
    memcpy(task.views, update->views, sizeof task.views);
    HD_TRY(list_accesses(bucket, operands, &accesses, &task.n_accesses));
    task.accesses = accesses;
    int status = hd_submit_task(bucket->session, &task);
    hd_free(accesses);
    return status;
}

static int list_transfers(const struct bucket *bucket,
                          int (*list)(const struct bucket *, int, struct hd_comm_transfer *),
                          struct hd_sync_point *point)
{
    enum { TRANSFERS_MAX = 2 * HD_VIEWS_MAX > 4 ? 2 * HD_VIEWS_MAX : 4 };
    const int hosts = hd_comm_count_hosts(bucket->session->options.comm);
    struct hd_comm_transfer *transfers =
        hd_alloc((int64_t)TRANSFERS_MAX * hosts, sizeof *transfers);
    if (!transfers)
        return HD_ERR_NOMEM;
    for (int host = 0; host < hosts; host++)
        if (host != host_of(bucket))
            point->n_transfers += list(bucket, host, transfers + point->n_transfers);
    point->transfers = point->owned = transfers;
    return HD_OK;
}

static int submit_sync(struct bucket *bucket,
                       int (*list)(const struct bucket *, int, struct hd_comm_transfer *),
                       bool on_host)
{
    struct hd_access *accesses;
    struct hd_sync_point point = {.name = bucket->update.labels[bucket->index],
                                  .sequence = ++bucket->session->next_sequence,
                                  .iteration = bucket->update.context.iteration,
                                  .priority = priority_of(bucket),
                                  .group = bucket->update.group,
                                  .on_host = on_host};
    if (list)
        HD_TRY(list_transfers(bucket, list, &point));
    int status = list_accesses(bucket, true, &accesses, &point.n_accesses);
    if (status == HD_OK) {
        point.accesses = accesses;
        status = hd_submit_sync(bucket->session, &point);
        hd_free(accesses);
    }
    if (status != HD_OK)
        hd_free(point.owned);
    return status;
}

static int begin_bucket(struct bucket *bucket)
{
    if (bucket->ops->by_host && hd_comm_count_host_ranks(bucket->session->options.comm) > 1)
        HD_TRY(submit_sync(bucket, NULL, true));
    if (bucket->ops->add_local)
        HD_TRY(submit_task(bucket, bucket->ops->add_local, get_partial_sums_volume(bucket), true,
                           false));
    HD_TRY(submit_sync(bucket, bucket->ops->list_operands, false));
    return submit_task(bucket, run_slice, get_slice_volume(bucket), true, false);
}

static int end_bucket(struct bucket *bucket)
{
    HD_TRY(submit_sync(bucket, bucket->ops->list_results, false));
    return submit_task(bucket, run_copy, get_copy_volume(bucket), false, true);
}

/* open: the bucket that is being submitted, and the one before, whose sync point B is yet to be; or
 * NULL. */
static int submit_buckets(struct hd_session *session, const struct hd_sharded_update *update,
                          struct bucket *open[2])
{
    for (int number = 0; number < update->operands->buckets; number++) {
        struct bucket *bucket = open[0] = make_bucket(session, update, number);
        if (!bucket)
            return HD_ERR_NOMEM;
        if (session->options.ranks == 1) {
            HD_TRY(submit_task(bucket, run_slice, get_slice_volume(bucket), true, true));
        } else {
            HD_TRY(begin_bucket(bucket));
            if (open[1])
                HD_TRY(end_bucket(open[1]));
            open[1] = bucket;
        }
        open[0] = NULL;
    }
    return open[1] ? end_bucket(open[1]) : HD_OK;
}

int hd_submit_sharded_update(struct hd_session *session, const struct hd_sharded_update *update)
{
    struct bucket *open[2] = {NULL, NULL};
    int status = submit_buckets(session, update, open);
    if (status == HD_OK)
        return HD_OK;
    hd_session_abandon(session, status, update->name);
    hd_free(open[0]);
    hd_free(open[1]);
    return status;
}
