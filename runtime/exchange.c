/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exchange.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm.h"
#include "runtime/session_internal.h"

#include <string.h>

/* The exchange of one part: freed by its last task. */
struct part {
    struct hd_session *session;
    struct hd_exchange is;
    int part;
    int64_t lo, hi; /* its elements */
    int64_t groups;
    const float *group[]; /* [shards of all ranks]: where the terms of a shard begin */
};

int64_t hd_exchange_scratch(int64_t scratch_bytes)
{
    return HD_BLOCK * (int64_t)sizeof(float) + hd_padded(scratch_bytes);
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

void hd_exchange_slice(int64_t lo, int64_t hi, int rank, int ranks, int64_t *lo_p, int64_t *hi_p)
{
    const int64_t blocks = (hi - lo + HD_BLOCK - 1) / HD_BLOCK;
    const int64_t from = lo + blocks * rank / ranks * HD_BLOCK;
    const int64_t to = lo + blocks * (rank + 1) / ranks * HD_BLOCK;
    *lo_p = from < hi ? from : hi;
    *hi_p = to < hi ? to : hi;
}

static void slice_of(const struct part *part, int rank, int64_t *lo_p, int64_t *hi_p)
{
    hd_exchange_slice(part->lo, part->hi, rank, part->session->options.ranks, lo_p, hi_p);
}

static float leaf_weights(const struct part *part, int64_t group, int64_t lo, int64_t n)
{
    const struct hd_spec *spec = part->is.terms;
    if (n == 1)
        return spec->type->weight(spec, part->part, part->group[group], lo);
    float left = leaf_weights(part, group, lo, n / 2);
    return left + leaf_weights(part, group, lo + n / 2, n - n / 2);
}

static float group_weights(const struct part *part, int64_t lo, int64_t n)
{
    if (n == 1)
        return leaf_weights(part, lo, 0, part->is.terms->leaves);
    float left = group_weights(part, lo, n / 2);
    return left + group_weights(part, lo + n / 2, n - n / 2);
}

/* A single term needs no sum and no cutting into blocks. */
static int run_slice(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct part *part = args;
    const int64_t leaves = part->is.terms->leaves;
    const int64_t stride = part->is.terms->bytes / leaves / (int64_t)sizeof(float);
    const float count = group_weights(part, 0, part->groups);
    int64_t lo, hi;
    slice_of(part, part->session->options.rank, &lo, &hi);
    const int64_t step = leaves * part->groups == 1 ? hi - lo : HD_BLOCK;
    float *sum = context->scratch;
    context->scratch = sum + HD_BLOCK;
    context->again = false;
    for (int64_t at = lo; at < hi || !context->again; at += step) {
        const int64_t end = at + step < hi ? at + step : hi;
        const float *given = part->group[0] + at;
        if (leaves * part->groups > 1) {
            hd_tree_add(part->groups, part->group, leaves, stride, at, end, sum);
            given = sum;
        }
        HD_TRY(part->is.slice(context, views, part->is.args, at, end, given, count));
        context->again = true;
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
        for (int i = 1; i < part->is.n && rank != options->rank && lo < hi; i++)
            if (part->is.wanted_whole[i])
                HD_TRY(hd_value_copy_range(views[i].spec, lo, hi, views[i].data,
                                           on_rank(part->session, rank, views[i].data)));
    }
    return HD_OK;
}

/* -- Submitting -----------------------------------------------------------------------------------
 */

static struct part *make_part(struct hd_session *session, const struct hd_exchange *exchange,
                              int number)
{
    const int ranks = session->options.ranks;
    struct part *part =
        hd_alloc(1, sizeof *part + (size_t)(ranks * exchange->n_in) * sizeof part->group[0]);
    if (!part)
        return NULL;
    part->session = session;
    part->is = *exchange;
    part->part = number;
    hd_spec_part(exchange->terms, number, &part->lo, &part->hi);
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < exchange->n_in; i++)
            part->group[part->groups++] = on_rank(session, rank, exchange->in[i]);
    for (int i = 0; i < exchange->n; i++)
        part->is.views[i].part = number;
    return part;
}

/* What every task of a part holds: the values that the step touches, and the terms if asked. The
 * list is the caller's to free. */
static int list_accesses(const struct part *part, bool terms, struct hd_access **list_p, int *n_p)
{
    const struct hd_exchange *is = &part->is;
    struct hd_access *list = hd_alloc(is->n + is->n_in, sizeof *list);
    int n = 0;
    if (!list)
        return HD_ERR_NOMEM;
    for (int i = 1; i < is->n; i++) {
        const struct hd_buffer *buffer = is->buffers[i];
        bool cut = buffer && buffer->parts == is->terms->parts;
        list[n++] = (struct hd_access){is->buffers[i], cut ? part->part : HD_ALL_PARTS,
                                       HD_ALL_LEAVES, is->modes[i]};
    }
    for (int i = 0; terms && i < is->n_in; i++)
        list[n++] = (struct hd_access){is->in_buffers[i], part->part, HD_ALL_LEAVES, HD_READ};
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
                       bool terms, bool last)
{
    const struct hd_exchange *is = &part->is;
    struct hd_task task = {.verb = is->verb,
                           .name = is->name,
                           .body = body,
                           .args = part,
                           .owned = last ? part : NULL,
                           .context = is->context,
                           .n = is->n,
                           .priority = priority_of(part),
                           .group = is->group};
    struct hd_access *accesses;
    memcpy(task.views, is->views, sizeof task.views);
    HD_TRY(list_accesses(part, terms, &accesses, &task.n_accesses));
    task.accesses = accesses;
    int status = hd_submit(part->session, &task);
    hd_free(accesses);
    return status;
}

static int submit_sync(struct part *part)
{
    struct hd_access *accesses;
    struct hd_sync_point point = {.name = part->is.labels[part->part],
                                  .sequence = ++part->session->next_sequence,
                                  .iteration = part->is.context.iteration,
                                  .priority = priority_of(part),
                                  .group = part->is.group};
    HD_TRY(list_accesses(part, true, &accesses, &point.n_accesses));
    point.accesses = accesses;
    int status = hd_submit_sync(part->session, &point);
    hd_free(accesses);
    return status;
}

static int begin_part(struct part *part)
{
    HD_TRY(submit_sync(part));
    return submit_task(part, run_slice, true, false);
}

static int end_part(struct part *part)
{
    HD_TRY(submit_sync(part));
    return submit_task(part, run_copy, false, true);
}

int hd_submit_exchange(struct hd_session *session, const struct hd_exchange *exchange)
{
    struct part *previous = NULL;
    for (int number = 0; number < exchange->terms->parts; number++) {
        struct part *part = make_part(session, exchange, number);
        if (!part)
            return HD_ERR_NOMEM;
        if (session->options.ranks == 1) {
            HD_TRY(submit_task(part, run_slice, true, true));
            continue;
        }
        HD_TRY(begin_part(part));
        if (previous)
            HD_TRY(end_part(previous));
        previous = part;
    }
    return previous ? end_part(previous) : HD_OK;
}
