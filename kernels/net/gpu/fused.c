/* SPDX-License-Identifier: Apache-2.0 */
/* Nets of fused forms on GPUs, by their plans. */
#include "kernels/common/cuda_check.h"
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <stdatomic.h>

/* -- Preparing --------------------------------------------------------------------------------- */

static pthread_mutex_t preparing = PTHREAD_MUTEX_INITIALIZER;

static int current_gpu(int *gpu_p)
{
    *gpu_p = 0;
    HD_TRY(hd_cuda_check(cudaGetDevice(gpu_p), "cudaGetDevice"));
    if (*gpu_p >= HD_NET_GPUS)
        return hd_fail(HD_ERR_UNSUPPORTED, "GPU %d: a program may use %d", *gpu_p, HD_NET_GPUS);
    return HD_OK;
}

/* Finds what the net keeps on the current GPU. */
static int find_on(const struct hd_net *net, const struct hd_net_on_gpu **on_p)
{
    int gpu;
    HD_TRY(current_gpu(&gpu));
    *on_p = atomic_load_explicit(&net->gpus->on[gpu], memory_order_acquire);
    return *on_p ? HD_OK : hd_fail(HD_ERR_INPUT, "no net was prepared for GPU %d", gpu);
}

static int put_on(const struct hd_gpu_plan *plan)
{
    struct hd_net_gpus *gpus = plan->net->gpus;
    struct hd_net_on_gpu *on;
    int gpu;
    HD_TRY(current_gpu(&gpu));
    if (gpus->on[gpu])
        return HD_OK;
    HD_TRY(hd_net_on_gpu_create(plan, &on));
    gpus->release = hd_net_on_gpu_destroy;
    atomic_store_explicit(&gpus->on[gpu], on, memory_order_release);
    return HD_OK;
}

/* Walks both passes without computing, on addresses that are never accessed, to prepare their
 * GEMMs. */
static int run_dry(const struct hd_gpu_plan *plan, int64_t batch, int64_t backward_batch)
{
    void *nowhere = (void *)(uintptr_t)HD_GEMM_WORKSPACE_ALIGNMENT;
    struct hd_gpu_pass pass = {.plan = plan, .params = nowhere, .dry_run = true};
    struct hd_gpu_scratch scratch;
    struct hd_gpu_work work;
    const struct hd_gpu_obs obs = {0};
    HD_TRY(find_on(plan->net, &pass.on));
    hd_gpu_lay_out_work(plan, batch, nowhere, &work);
    hd_gpu_lay_out_scratch(plan, backward_batch, nowhere, &scratch);
    if (batch > 0)
        HD_TRY(hd_gpu_forward(&pass, &obs, batch, &work, NULL));
    if (backward_batch > 0)
        HD_TRY(hd_gpu_backward(&pass, backward_batch, backward_batch, &work, NULL, &scratch, 0,
                               hd_net_count_stages(plan->net), nowhere, true));
    return HD_OK;
}

static int fused_prepare(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    struct hd_gpu_plan plan;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    pthread_mutex_lock(&preparing);
    int status = put_on(&plan);
    pthread_mutex_unlock(&preparing);
    return status == HD_OK ? run_dry(&plan, batch, backward_batch) : status;
}

/* -- Parameters -------------------------------------------------------------------------------- */

static int64_t get_shadow_bytes(const struct hd_net *net)
{
    struct hd_gpu_plan plan;
    if (hd_gpu_plan_make(net, &plan) != HD_OK)
        return 0;
    return hd_align_up(plan.narrow * hd_gpu_get_element_bytes(&plan) +
                       plan.wide * (int64_t)sizeof(float));
}

static int64_t count_gradient(const struct hd_net *net)
{
    struct hd_gpu_plan plan;
    return hd_gpu_plan_make(net, &plan) == HD_OK ? plan.gradients + plan.sums : 0;
}

static int get_gradient_table(const struct hd_net *net, const int32_t **at_p)
{
    const struct hd_net_on_gpu *on;
    HD_TRY(find_on(net, &on));
    *at_p = on->tiles.gradient_at;
    return HD_OK;
}

static int get_tiles(const struct hd_net *net, void *params, struct hd_tiles *tiles_p)
{
    const struct hd_net_on_gpu *on;
    struct hd_gpu_plan plan;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    HD_TRY(find_on(net, &on));
    *tiles_p = on->tiles;
    tiles_p->floats = params;
    tiles_p->narrow = hd_gpu_find_shadow(&plan, params, 0);
    tiles_p->wide = hd_gpu_find_shadow(&plan, params, plan.narrow);
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
                    void *scratch_memory, int first, int last, float *grad, bool gpu_order,
                    void *stream)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_work work;
    struct hd_gpu_scratch scratch;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    hd_gpu_lay_out_work(&plan, forward_batch, (void *)memory, &work);
    hd_gpu_lay_out_scratch(&plan, batch, scratch_memory, &scratch);
    struct hd_gpu_pass pass = {
        .plan = &plan, .params = params, .workspace = scratch.workspace, .stream = stream};
    HD_TRY(find_on(net, &pass.on));
    return hd_gpu_backward(&pass, batch, forward_batch, &work, dq, &scratch, first, last, grad,
                           gpu_order);
}

const struct hd_net_gpu_ops hd_fused_net_on_gpu = {
    .shadow_bytes = get_shadow_bytes,
    .count_gradient = count_gradient,
    .gradient_table = get_gradient_table,
    .tiles = get_tiles,
    .prepare = fused_prepare,
    .forward_bytes = get_forward_bytes,
    .forward = fused_forward,
    .backward_bytes = get_backward_bytes,
    .backward = backward,
};
