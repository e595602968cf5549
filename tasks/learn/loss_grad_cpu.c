/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad on CPUs. Stage 0 goes forward through the net and computes the loss's derivative by its
 * outputs; later stages go back through the net. A net of one backward stage does everything in one
 * stage. Where there are several and a target net, an early stage goes forward through that: it
 * need not wait for the policy, whose update other ranks may still be sending. A net with L levels
 * of batch norms stops at each level, in both directions, for sums over the items of all shards:
 * stages 0 to L go forward and L to 2 L go back. */
#include "kernels/learn/samples.h"
#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tasks/learn/freeze.h"
#include "tasks/learn/loss_grad_internal.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/output/moments.h"

#include <math.h>

/* Like hd_loss_item_lay_out, with the bytes that CPUs need. */
static int64_t lay_out(const struct hd_loss_grad *args, void *memory, void *header,
                       struct hd_loss_item *item_p)
{
    int64_t forward, backward = 0;
    if (args->levels > 0) {
        forward = hd_net_get_training_bytes(args->net, args->micro);
    } else {
        const int64_t steps = args->steps > 0 ? args->steps : 1;
        const int64_t rows = args->steps > 0 ? args->micro : hd_loss_grad_count_forward_rows(args);
        forward = hd_net_get_forward_bytes(args->net, rows, steps);
        backward = hd_net_get_backward_bytes(args->net, args->micro, steps);
    }
    return hd_loss_item_lay_out(args, forward, backward, memory, header, item_p);
}

static int count_early_stages(const struct hd_loss_grad *args)
{
    return args->loss->target && args->levels == 0 && args->backward_stages > 1;
}

/* Returns the number of the first stage that goes back, of a net without batch norms. */
static int find_backward(const struct hd_loss_grad *args)
{
    return count_early_stages(args) + (args->backward_stages > 1);
}

void hd_loss_grad_get_subtasks(const void *arg, struct hd_subtasks *subtasks_p)
{
    const struct hd_loss_grad *args = arg;
    struct hd_loss_item unused;
    *subtasks_p = (struct hd_subtasks){
        .items = args->items,
        .stages =
            args->levels > 0 ? 2 * args->levels + 1 : find_backward(args) + args->backward_stages,
        .early = count_early_stages(args),
        .work_bytes = lay_out(args, NULL, NULL, &unused),
        .header_bytes = args->loss->header_bytes,
        .finish_last = args->levels > 0,
    };
}

int64_t hd_loss_grad_count_cross_shard_sums(const void *arg, int stage)
{
    return hd_net_count_training_sums(((const struct hd_loss_grad *)arg)->net, stage);
}

void hd_loss_grad_get_stage_range(const void *arg, int stage, int64_t *lo_p, int64_t *hi_p)
{
    const struct hd_loss_grad *args = arg;
    *lo_p = *hi_p = 0;
    if (args->levels == 0 && stage >= find_backward(args))
        hd_net_get_stage_range(args->net, stage - find_backward(args), lo_p, hi_p);
    else if (args->levels > 0 && stage == 2 * args->levels)
        *hi_p = hd_net_count_params(args->net);
}

/* Writes the number of rows that count, with which a header begins. */
static void count_rows(const struct hd_loss_grad *args, const struct hd_loss_pass *pass)
{
    const int64_t used = *args->loss->batch->get_used(&pass->views[HD_LOSS_BATCH]);
    *(int64_t *)pass->header = hd_samples_count(used, pass->first, pass->rows);
}

static void go_forward_target(const struct hd_loss_grad *args, const struct hd_context *context,
                              const struct hd_view *views, const struct hd_loss_item *work)
{
    const struct hd_loss_pass pass = hd_loss_item_make_pass(args, views, context->item, work);
    const struct hd_loss_operands from = hd_loss_pass_get_operands(args, &pass);
    struct hd_obs_norm scales;
    const struct hd_net_pass target = {.params = from.target,
                                       .norm =
                                           hd_moments_get_obs_norm(&views[HD_LOSS_NORM], &scales),
                                       .obs = from.next_obs,
                                       .rows = args->micro,
                                       .work = work->forward};
    hd_net_forward(args->net, &target, work->target_next);
}

/* The backward pass follows the policy's pass, which is the last one: it overwrites the activations
 * of the target net. */
static void go_forward(const struct hd_loss_grad *args, const struct hd_context *context,
                       const struct hd_view *views, const struct hd_loss_item *work)
{
    struct hd_loss_pass pass = hd_loss_item_make_pass(args, views, context->item, work);
    const struct hd_loss_operands from = hd_loss_pass_get_operands(args, &pass);
    struct hd_obs_norm scales;
    const struct hd_obs_norm *norm = hd_moments_get_obs_norm(&views[HD_LOSS_NORM], &scales);
    pass.rng = &context->rng;
    pass.scratch = context->scratch;
    count_rows(args, &pass);
    const struct hd_net_pass policy = {
        .params = from.policy,
        .norm = norm,
        .obs = from.obs,
        .next_obs = args->steps > 0 || args->loss->passes == HD_LOSS_OBS ? NULL : from.next_obs,
        .rows = args->micro,
        .sequences = args->steps > 0 ? &from.sequences : NULL,
        .work = work->forward};
    hd_net_forward(args->net, &policy, work->out);
    args->loss->differentiate(args->loss_args, &pass);
}

/* Sets the counts of all buckets that elements [lo, hi) touch. */
static void count_samples(const struct hd_view *grad, int64_t partial, float rows, int64_t lo,
                          int64_t hi)
{
    float *counts = hd_grad_get_counts(grad->spec, grad->data, partial);
    for (int bucket = 0; bucket < grad->spec->buckets; bucket++) {
        int64_t bucket_lo, bucket_hi;
        hd_spec_get_bucket(grad->spec, bucket, &bucket_lo, &bucket_hi);
        if (bucket_lo < hi && bucket_hi > lo)
            counts[bucket] = rows;
    }
}

/* Returns the number of samples by which the microbatch counts in the mean. */
static float count_of(const struct hd_loss_grad *args, void *header)
{
    if (args->skips && !hd_loss_item_is_finite(args, header))
        return NAN;
    return (float)*(const int64_t *)header;
}

static void go_backward(const struct hd_loss_grad *args, const struct hd_view *views, int64_t item,
                        int stage, const struct hd_loss_item *work)
{
    const struct hd_view *grad = &views[HD_LOSS_GRAD];
    int64_t lo, hi;
    hd_net_get_stage_range(args->net, stage, &lo, &hi);
    hd_net_backward(args->net, views[HD_LOSS_POLICY].data, args->micro,
                    hd_loss_grad_count_forward_rows(args), work->forward, work->dout,
                    work->backward, stage, hd_grad_get_partial(grad->spec, grad->data, item));
    hd_freeze_apply(args->learns, lo, hi, hd_grad_get_partial(grad->spec, grad->data, item));
    count_samples(grad, item, count_of(args, work->header), lo, hi);
}

/* Runs a stage of a net with batch norm. The stage in the middle goes forward and back. */
static void go_through_norms(const struct hd_context *context, const struct hd_view *views,
                             const struct hd_loss_grad *args, const struct hd_loss_item *work)
{
    const struct hd_view *grad = &views[HD_LOSS_GRAD];
    const int stage = context->stage, levels = args->levels;
    struct hd_loss_pass pass = hd_loss_item_make_pass(args, views, context->item, work);
    struct hd_obs_norm norm;
    pass.rng = &context->rng;
    pass.scratch = context->scratch;
    count_rows(args, &pass);
    const struct hd_training_pass training = {
        .params = views[HD_LOSS_POLICY].data,
        .norm = hd_moments_get_obs_norm(&views[HD_LOSS_NORM], &norm),
        .obs = hd_loss_pass_get_operands(args, &pass).obs,
        .batch = args->micro,
        .used = hd_loss_get_used(&pass),
        .work = work->forward,
        .q = work->out,
        .dq = work->dout,
        .grad =
            stage == 2 * levels ? hd_grad_get_partial(grad->spec, grad->data, context->item) : NULL,
    };
    if (stage <= levels)
        hd_net_training_forward(args->net, &training, stage, context->cross_shard_sums,
                                context->partial_sums);
    if (stage == levels)
        args->loss->differentiate(args->loss_args, &pass);
    if (stage >= levels)
        hd_net_training_backward(args->net, &training, stage - levels, context->cross_shard_sums,
                                 context->partial_sums);
    if (stage == 2 * levels)
        count_samples(grad, context->item, (float)hd_loss_get_used(&pass), 0,
                      hd_net_count_params(args->net));
}

int hd_loss_grad_run_stage(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct hd_loss_grad *args = arg;
    struct hd_loss_item work;
    lay_out(args, context->work, context->header, &work);
    if (args->levels > 0) {
        go_through_norms(context, views, args, &work);
        return HD_OK;
    }
    if (context->stage == 0 && args->loss->target)
        go_forward_target(args, context, views, &work);
    if (context->stage == count_early_stages(args)) {
        go_forward(args, context, views, &work);
        if (context->dump_views && !hd_loss_item_is_finite(args, work.header))
            context->dump_views(context, views, "the loss is not a number");
    }
    if (context->stage >= find_backward(args))
        go_backward(args, views, context->item, context->stage - find_backward(args), &work);
    return HD_OK;
}

void hd_loss_grad_update_running_stats(const struct hd_loss_grad *args, const struct hd_view *stats,
                                       void *memory)
{
    struct hd_loss_item work;
    lay_out(args, memory, NULL, &work);
    const struct hd_training_pass training = {.batch = args->micro, .work = work.forward};
    *hd_batch_norm_stats_get_batches(stats->data) +=
        hd_net_update_running(args->net, &training, hd_batch_norm_stats_get_running(stats->data));
}
