/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad on a GPU, in the stages of the CPU or in a single one. */
#include "runtime/base/status.h"
#include "tasks/learn/loss_grad_internal.h"

#if HD_CUDA
#include "kernels/learn/samples.h"
#include "kernels/net/net.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/output/moments.h"

#include <string.h>

/* A gradient of one bucket is only used as a whole, so that one stage is enough. */
static bool in_one_stage(const struct hd_loss_grad *args)
{
    return args->buckets == 1 || args->backward_stages == 1;
}

static bool supports(const void *arg)
{
    const struct hd_loss_grad *args = arg;
    return !args->skips && !args->learns && args->loss->differentiate_on_gpu;
}

/* Like hd_loss_item_lay_out, with the bytes that GPUs need. */
static int64_t lay_out(const struct hd_loss_grad *args, void *memory, void *header,
                       struct hd_loss_item *item_p)
{
    return hd_loss_item_lay_out(
        args, hd_net_get_forward_cuda_bytes(args->net, hd_loss_grad_count_forward_rows(args)),
        hd_net_get_backward_cuda_bytes(args->net, args->micro), memory, header, item_p);
}

static void loss_grad_get_subtasks(const void *arg, struct hd_subtasks *subtasks_p)
{
    const struct hd_loss_grad *args = arg;
    struct hd_loss_item unused;
    *subtasks_p = (struct hd_subtasks){
        .items = args->items,
        .stages = in_one_stage(args) ? 1 : 1 + args->backward_stages,
        .work_bytes = lay_out(args, NULL, NULL, &unused),
        .header_bytes = args->loss->header_bytes,
    };
}

static int ready(const void *arg)
{
    const struct hd_loss_grad *args = arg;
    HD_TRY(hd_net_prepare_cuda(args->net, hd_loss_grad_count_forward_rows(args), args->micro));
    return args->loss->ready_on_gpu ? args->loss->ready_on_gpu(args->loss_args) : HD_OK;
}

static int64_t loss_grad_scratch(const void *arg)
{
    const struct hd_loss_grad *args = arg;
    return args->loss->scratch_bytes_on_gpu ? args->loss->scratch_bytes_on_gpu(args->loss_args) : 0;
}

/* Makes the passes of a CPU. */
static int make_passes(const struct hd_loss_grad *args, const struct hd_loss_pass *pass,
                       const struct hd_loss_item *work)
{
    const struct hd_loss_operands from = hd_loss_pass_get_operands(args, pass);
    struct hd_obs_norm scales;
    const struct hd_obs_norm *norm = hd_moments_get_obs_norm(&pass->views[HD_LOSS_NORM], &scales);
    if (args->loss->target)
        HD_TRY(hd_net_forward_cuda(args->net, from.target, norm, from.next_obs, args->micro,
                                   work->forward, work->target_next, pass->stream));
    if (args->loss->passes == HD_LOSS_OBS)
        return hd_net_forward_cuda(args->net, from.policy, norm, from.obs, args->micro,
                                   work->forward, work->out, pass->stream);
    return hd_net_forward_pair_cuda(args->net, from.policy, norm, from.obs, from.next_obs,
                                    args->micro, work->forward, work->out, pass->stream);
}

static int go_forward(const struct hd_loss_grad *args, const struct hd_loss_pass *pass,
                      const struct hd_loss_item *work)
{
    HD_TRY(hd_samples_count_cuda(args->loss->batch->get_used(&pass->views[HD_LOSS_BATCH]),
                                 pass->first, pass->rows, pass->header, pass->stream));
    HD_TRY(make_passes(args, pass, work));
    return args->loss->differentiate_on_gpu(args->loss_args, pass);
}

/* Sets the counts of all buckets that elements [lo, hi) touch. */
static int count_samples(const struct hd_view *grad, const struct hd_loss_pass *pass,
                         int64_t partial, int64_t lo, int64_t hi)
{
    float *counts = hd_grad_get_counts(grad->spec, grad->data, partial);
    int first = -1, end = 0;
    for (int bucket = 0; bucket < grad->spec->buckets; bucket++) {
        int64_t bucket_lo, bucket_hi;
        hd_spec_get_bucket(grad->spec, bucket, &bucket_lo, &bucket_hi);
        if (bucket_lo >= hi || bucket_hi <= lo)
            continue;
        first = first < 0 ? bucket : first;
        end = bucket + 1;
    }
    if (first < 0)
        return HD_OK;
    return hd_samples_fill_counts_cuda(hd_loss_get_used_address(pass), end - first, counts + first,
                                       pass->stream);
}

static int go_backward(const struct hd_loss_grad *args, const struct hd_loss_pass *pass,
                       const struct hd_loss_item *work, int64_t item, int from, int to)
{
    const struct hd_view *grad = &pass->views[HD_LOSS_GRAD];
    int64_t lo, hi, unused;
    hd_net_get_stage_range(args->net, from, &lo, &unused);
    hd_net_get_stage_range(args->net, to - 1, &unused, &hi);
    HD_TRY(hd_net_backward_cuda(
        args->net, pass->views[HD_LOSS_POLICY].data, args->micro,
        hd_loss_grad_count_forward_rows(args), work->forward, work->dout, work->backward, from, to,
        hd_grad_get_partial(grad->spec, grad->data, item), grad->spec->gpu_order, pass->stream));
    return count_samples(grad, pass, item, lo, hi);
}

static int loss_grad_body(struct hd_context *context, const struct hd_view *views, const void *arg)
{
    const struct hd_loss_grad *args = arg;
    const int stage = context->stage;
    struct hd_loss_item work;
    lay_out(args, context->work, context->header, &work);
    struct hd_loss_pass pass = hd_loss_item_make_pass(args, views, context->item, &work);
    pass.stream = context->stream;
    pass.scratch = context->scratch;
    pass.rng = context->inputs;
    if (stage == 0)
        HD_TRY(go_forward(args, &pass, &work));
    if (in_one_stage(args))
        return go_backward(args, &pass, &work, context->item, 0, args->backward_stages);
    return stage == 0 ? HD_OK : go_backward(args, &pass, &work, context->item, stage - 1, stage);
}

const struct hd_gpu_verb hd_loss_grad_on_gpu = {
    .body = loss_grad_body,
    .supports = supports,
    .get_subtasks = loss_grad_get_subtasks,
    .ready = ready,
    .scratch = loss_grad_scratch,
    .graph_capturable = true,
    .set_inputs = hd_inputs_set_rng,
    .input_bytes = sizeof(struct hd_rng),
    .finishes_at_end = true,
    .decides = true,
};

int hd_loss_grad_check_gpu(const struct hd_setup *setup, const struct hd_loss_grad *args)
{
    if (supports(args) || strcmp(hd_config_get_text(setup->config, "policy.cuda"), "true") != 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag,
                             hd_config_locate(setup->config, "policy.cuda", setup->location),
                             "%s%s is computed on CPUs only; with it policy.cuda is auto or false, "
                             "found true",
                             args->learns  ? "policy.learn."
                             : args->skips ? "runtime.on_nan: "
                                           : "loss ",
                             args->learns  ? "freeze"
                             : args->skips ? "skip"
                                           : args->loss->name);
}
#else
int hd_loss_grad_check_gpu(const struct hd_setup *setup, const struct hd_loss_grad *args)
{
    (void)setup, (void)args;
    return HD_OK;
}
#endif
