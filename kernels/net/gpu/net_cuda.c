/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of kernels/net/net.h for GPUs. */
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

int hd_net_prepare_cuda(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    struct hd_gpu_plan plan;
    HD_TRY(hd_gpu_plan_make(net, &plan));
    pthread_mutex_lock(&preparing);
    int status = put_on(&plan);
    pthread_mutex_unlock(&preparing);
    return status == HD_OK ? run_dry(&plan, batch, backward_batch) : status;
}

/* -- Parameters -------------------------------------------------------------------------------- */

int64_t hd_net_get_device_bytes(const struct hd_net *net)
{
    struct hd_gpu_plan plan;
    if (!net->fused || hd_gpu_plan_make(net, &plan) != HD_OK)
        return 0;
    return hd_align_up(net->elements * (int64_t)sizeof(float)) +
           hd_align_up(plan.narrow * hd_gpu_get_element_bytes(&plan) +
                       plan.wide * (int64_t)sizeof(float));
}

int64_t hd_net_count_gpu_gradient(const struct hd_net *net)
{
    struct hd_gpu_plan plan;
    if (!net->fused || hd_gpu_plan_make(net, &plan) != HD_OK)
        return 0;
    return plan.gradients + plan.sums;
}

int hd_net_get_gradient_table(const struct hd_net *net, const int32_t **at_p)
{
    const struct hd_net_on_gpu *on;
    HD_TRY(find_on(net, &on));
    *at_p = on->tiles.gradient_at;
    return HD_OK;
}

int hd_net_get_tiles(const struct hd_net *net, void *params, struct hd_tiles *tiles_p)
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

int hd_net_refresh_cuda(const struct hd_net *net, void *params, int64_t lo, int64_t hi,
                        void *stream)
{
    struct hd_tiles tiles;
    HD_TRY(hd_net_get_tiles(net, params, &tiles));
    return hd_gpu_refresh_shadow(&tiles, lo, hi, stream);
}

/* -- Passes ------------------------------------------------------------------------------------ */

int64_t hd_net_get_forward_cuda_bytes(const struct hd_net *net, int64_t batch)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_work unused;
    if (batch <= 0 || hd_gpu_plan_make(net, &plan) != HD_OK)
        return 0;
    return hd_gpu_lay_out_work(&plan, batch, NULL, &unused);
}

static struct hd_gpu_obs obs_of(const struct hd_net *net, const struct hd_obs_norm *norm)
{
    struct hd_gpu_obs obs = {.elements = net->obs,
                             .type = net->obs_u8 ? HD_GPU_BYTES : HD_GPU_FLOATS};
    if (norm) {
        obs.scale = norm->scale;
        obs.shift = norm->shift;
        obs.limit = norm->limit;
    }
    return obs;
}

static int forward(const struct hd_net *net, const void *params, const struct hd_gpu_obs *obs,
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

int hd_net_forward_cuda(const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm, const void *observations, int64_t batch,
                        void *work, float *q, void *stream)
{
    struct hd_gpu_obs obs = obs_of(net, norm);
    obs.first = observations;
    obs.n_first = batch;
    return forward(net, params, &obs, batch, work, q, stream);
}

int hd_net_forward_pair_cuda(const struct hd_net *net, const void *params,
                             const struct hd_obs_norm *norm, const void *first, const void *second,
                             int64_t rows, void *work, float *q, void *stream)
{
    struct hd_gpu_obs obs = obs_of(net, norm);
    obs.first = first;
    obs.second = second;
    obs.n_first = rows;
    return forward(net, params, &obs, 2 * rows, work, q, stream);
}

int64_t hd_net_get_backward_cuda_bytes(const struct hd_net *net, int64_t batch)
{
    struct hd_gpu_plan plan;
    struct hd_gpu_scratch unused;
    if (batch <= 0 || hd_gpu_plan_make(net, &plan) != HD_OK)
        return 0;
    return hd_gpu_lay_out_scratch(&plan, batch, NULL, &unused);
}

int hd_net_backward_cuda(const struct hd_net *net, const void *params, int64_t batch,
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
