/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of a net on a GPU: op by op, in either direction. An op's step back turns derivatives
 * by its output into those by its input and computes the gradients of its parameters. */
#include "kernels/net/list/gpu/on_gpu_internal.h"

#include <stddef.h>

/* -- Forward ----------------------------------------------------------------------------------- */

static int go_forward(const struct gpu_pass *pass)
{
    const struct walk *walk = &pass->net->on_gpu;
    const struct hd_form *form = hd_gpu_get_form(pass, OBS);
    if (hd_gpu_keeps_obs(pass->net, pass->rows))
        HD_GPU_RUN(pass, hd_gpu_take_obs(pass->obs, pass->rows, form->ld, form->bf16,
                                         hd_gpu_get_value(pass, OBS, 0), pass->stream));
    for (int i = 0; i < walk->n_ops; i++)
        HD_TRY(get_gpu_type(&walk->ops[i])->forward(pass, &walk->ops[i]));
    return HD_OK;
}

int hd_list_forward_cuda(const struct hd_net *base, const void *params,
                         const struct hd_gpu_obs *obs, int64_t rows, void *work, float *q,
                         void *stream)
{
    const struct gpu_pass pass = {.net = as_list(base),
                                  .params = params,
                                  .rows = rows,
                                  .forward_rows = rows,
                                  .work = work,
                                  .stream = stream,
                                  .obs = obs,
                                  .q = q};
    return go_forward(&pass);
}

/* -- Backward ---------------------------------------------------------------------------------- */

static int go_back_op(const struct gpu_pass *pass, const struct op *op)
{
    const struct gpu_impl_type *type = get_gpu_type(op);
    const struct value *in = &pass->net->on_gpu.values[op->in];
    if (type->backward_weights)
        HD_TRY(type->backward_weights(pass, op));
    if (type->backward_data && (!in->is_obs || op->skip != NO_VALUE))
        HD_TRY(type->backward_data(pass, op));
    return HD_OK;
}

/* Writes sums of columns from that of op `first` on, which belong to gradients. */
static int finish(const struct gpu_pass *pass, int64_t first, int64_t end)
{
    const struct gpu_places *places = &pass->net->places;
    if (first < end)
        HD_GPU_RUN(pass, hd_gpu_finish_sums(hd_gpu_make_sums(pass, 0).sums, places->sums, first,
                                            end, pass->gradient + places->gradients, pass->stream));
    return HD_OK;
}

/* Goes back through the ops of stages [first, last): an op is in the stage that needs the first of
 * all tensors up to its own. */
static int go_back(const struct gpu_pass *pass, int first, int last)
{
    const struct walk *walk = &pass->net->on_gpu;
    const struct hd_net_on_gpu *on;
    int64_t sums = pass->net->places.sums, lowest = sums;
    HD_TRY(hd_net_on_gpu_find(&pass->net->base, &on));
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        const struct op *op = &walk->ops[i];
        const int stage = on->stage[as_gpu(op)->tensors];
        if (stage >= last)
            break;
        if (stage < first)
            sums = as_gpu(op)->first_sum;
        else
            HD_TRY(go_back_op(pass, op));
        lowest = as_gpu(op)->first_sum;
    }
    return finish(pass, lowest, sums);
}

int hd_list_backward_cuda(const struct hd_net *base, const void *params, int64_t batch,
                          int64_t forward_batch, const void *work, const float *dq, void *scratch,
                          int first, int last, float *gradient, void *stream)
{
    const struct gpu_pass pass = {.net = as_list(base),
                                  .params = params,
                                  .rows = batch,
                                  .forward_rows = forward_batch,
                                  .work = (void *)work,
                                  .scratch = scratch,
                                  .stream = stream,
                                  .dq = dq,
                                  .gradient = gradient};
    return go_back(&pass, first, last);
}

/* -- Preparing --------------------------------------------------------------------------------- */

/* Goes both ways without computing, on addresses that are never accessed, to prepare products. */
int hd_list_prepare_cuda(const struct hd_net *base, int64_t batch, int64_t backward_batch)
{
    void *nowhere = (void *)(uintptr_t)HD_GEMM_WORKSPACE_ALIGNMENT;
    const struct hd_gpu_obs obs = {0};
    struct gpu_pass pass = {.net = as_list(base),
                            .params = nowhere,
                            .rows = batch,
                            .forward_rows = batch,
                            .work = nowhere,
                            .obs = &obs,
                            .dry_run = true};
    if (batch > 0)
        HD_TRY(go_forward(&pass));
    pass.rows = pass.forward_rows = backward_batch;
    pass.scratch = pass.gradient = nowhere;
    return backward_batch > 0 ? go_back(&pass, 0, hd_net_count_stages(base)) : HD_OK;
}
