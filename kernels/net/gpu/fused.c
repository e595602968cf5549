/* SPDX-License-Identifier: Apache-2.0 */
/* Nets of fused forms on GPUs, by their plans. */
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/status.h"

/* -- Preparing --------------------------------------------------------------------------------- */

/* Walks both passes without computing, on addresses that are never accessed, to prepare their
 * GEMMs. */
static int run_dry(const struct hd_gpu_plan *plan, int64_t batch, int64_t backward_batch)
{
    void *nowhere = (void *)(uintptr_t)HD_GEMM_WORKSPACE_ALIGNMENT;
    struct hd_gpu_pass pass = {.plan = plan, .params = nowhere, .dry_run = true};
    struct hd_gpu_scratch scratch;
    struct hd_gpu_work work;
    const struct hd_gpu_obs obs = {0};
    HD_TRY(hd_net_on_gpu_find(plan->net, &pass.on));
    hd_gpu_lay_out_work(plan, batch, nowhere, &work);
    hd_gpu_lay_out_scratch(plan, backward_batch, nowhere, &scratch);
    if (batch > 0)
        HD_TRY(hd_gpu_forward(&pass, &obs, batch, &work, NULL));
    if (backward_batch > 0)
        HD_TRY(hd_gpu_backward(&pass, backward_batch, backward_batch, &work, NULL, &scratch, 0,
                               hd_net_count_stages(plan->net), nowhere));
    return HD_OK;
}

static int fused_prepare(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    struct hd_gpu_plan plan;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    return run_dry(&plan, batch, backward_batch);
}

/* -- Parameters -------------------------------------------------------------------------------- */

static int describe(const struct hd_net *net, struct hd_gpu_shadow *shadow_p,
                    struct hd_gpu_matrix *matrices)
{
    struct hd_gpu_plan plan;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    *shadow_p = (struct hd_gpu_shadow){.bf16 = plan.bf16,
                                       .narrow = plan.narrow,
                                       .wide = plan.wide,
                                       .gradient = plan.gradients + plan.sums};
    for (int t = 0; t < net->n_tensors && matrices; t++)
        matrices[t] = hd_gpu_find_matrix(&plan, t);
    return HD_OK;
}

/* -- Passes ------------------------------------------------------------------------------------ */

static int64_t get_forward_bytes(const struct hd_net *net, int64_t batch)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_work unused;
    return hd_gpu_plan_make(net, &plan) == HD_OK ? hd_gpu_lay_out_work(&plan, batch, NULL, &unused)
                                                 : 0;
}

static int fused_forward(const struct hd_net *net, const void *params, const struct hd_gpu_obs *obs,
                         int64_t rows, void *memory, float *q, void *stream)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_work work;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    hd_gpu_lay_out_work(&plan, rows, memory, &work);
    const struct hd_gpu_pass pass = {
        .plan = &plan, .params = params, .workspace = work.workspace, .stream = stream};
    return hd_gpu_forward(&pass, obs, rows, &work, q);
}

static int64_t get_backward_bytes(const struct hd_net *net, int64_t batch)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_scratch unused;
    return hd_gpu_plan_make(net, &plan) == HD_OK
               ? hd_gpu_lay_out_scratch(&plan, batch, NULL, &unused)
               : 0;
}

static int backward(const struct hd_net *net, const void *params, int64_t batch,
                    int64_t forward_batch, const void *memory, const float *dq,
                    void *scratch_memory, int first, int last, float *gradient, void *stream)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_work work;
    struct hd_gpu_scratch scratch;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    hd_gpu_lay_out_work(&plan, forward_batch, (void *)memory, &work);
    hd_gpu_lay_out_scratch(&plan, batch, scratch_memory, &scratch);
    struct hd_gpu_pass pass = {
        .plan = &plan, .params = params, .workspace = scratch.workspace, .stream = stream};
    HD_TRY(hd_net_on_gpu_find(net, &pass.on));
    return hd_gpu_backward(&pass, batch, forward_batch, &work, dq, &scratch, first, last, gradient);
}

const struct hd_net_gpu_ops hd_fused_net_on_gpu = {
    .describe = describe,
    .prepare = fused_prepare,
    .forward_bytes = get_forward_bytes,
    .forward = fused_forward,
    .backward_bytes = get_backward_bytes,
    .backward = backward,
};
