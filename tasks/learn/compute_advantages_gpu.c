/* SPDX-License-Identifier: Apache-2.0 */
/* The form of compute_advantages for GPUs. One item goes through all blocks: a GPU has no use for
 * several at once, and their values then lie one behind another. */
#include "tasks/learn/compute_advantages_internal.h"

#if HD_CUDA
#include "kernels/learn/advantages.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/advantages.h"
#include "tasks/types/output/moments.h"

enum { BLOCK_ON_GPU = 512 };

struct work_on_gpu {
    float *value;       /* [N] */
    int32_t *after;     /* [after]: samples that need a bootstrap value */
    float *after_value; /* [after] */
    char *obs;          /* [block][obs_bytes] */
    float *out;         /* [block][outputs] */
    char *forward;
    float *targets;
};

static int64_t block_on_gpu(const struct hd_compute_advantages *args)
{
    return args->samples < BLOCK_ON_GPU ? args->samples : BLOCK_ON_GPU;
}

static int64_t lay_out_on_gpu(const struct hd_compute_advantages *args, void *memory,
                              struct work_on_gpu *work)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t block = block_on_gpu(args), rows = block > args->after ? block : args->after;
    work->value = hd_arena_take(&arena, args->samples, sizeof *work->value);
    work->after = hd_arena_take(&arena, args->after, sizeof *work->after);
    work->after_value = hd_arena_take(&arena, args->after, sizeof *work->after_value);
    work->obs = hd_arena_take(&arena, rows, (size_t)hd_net_get_obs_bytes(args->net));
    work->out = hd_arena_take(&arena, rows * hd_net_count_outputs(args->net), sizeof *work->out);
    work->forward = hd_arena_take(&arena, hd_net_get_forward_cuda_bytes(args->net, rows), 1);
    work->targets = hd_arena_take(&arena, hd_advantages_get_work_bytes(args->samples), 1);
    return arena.used;
}

static void get_subtasks_on_gpu(const void *args, struct hd_subtasks *subtasks_p)
{
    struct work_on_gpu unused;
    *subtasks_p = (struct hd_subtasks){
        .items = 1, .stages = 1, .work_bytes = lay_out_on_gpu(args, NULL, &unused)};
}

static int ready(const void *memory)
{
    const struct hd_compute_advantages *args = memory;
    HD_TRY(hd_net_prepare_cuda(args->net, block_on_gpu(args), 0));
    HD_TRY(hd_net_prepare_cuda(args->net, args->samples % block_on_gpu(args), 0));
    return hd_net_prepare_cuda(args->net, args->after, 0);
}

/* Queues value[rows] of the observations in work->obs. */
static int values_on_gpu(const struct hd_compute_advantages *args, const struct hd_view *views,
                         int64_t rows, const struct work_on_gpu *work, float *value, void *stream)
{
    struct hd_obs_norm norm;
    HD_TRY(hd_net_forward_cuda(args->net, views[HD_ADVANTAGES_POLICY].data,
                               hd_moments_get_obs_norm(&views[HD_ADVANTAGES_NORM], &norm),
                               work->obs, rows, work->forward, work->out, stream));
    return hd_advantages_gather_values_cuda(work->out, rows, hd_net_count_outputs(args->net), value,
                                            stream);
}

static int body_on_gpu(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct hd_compute_advantages *args = memory;
    const struct hd_steps steps = hd_trajectories_get_steps(views[HD_ADVANTAGES_TRAJECTORIES].spec,
                                                            views[HD_ADVANTAGES_TRAJECTORIES].data);
    const int64_t block = block_on_gpu(args);
    void *stream = context->stream;
    struct work_on_gpu work;
    lay_out_on_gpu(args, context->work, &work);
    for (int64_t first = 0; first < args->samples; first += block) {
        const int64_t left = args->samples - first, rows = left < block ? left : block;
        HD_TRY(hd_steps_gather_obs_cuda(&steps, first, rows, rows, work.obs, stream));
        HD_TRY(values_on_gpu(args, views, rows, &work, work.value + first, stream));
    }
    HD_TRY(hd_steps_find_bootstraps_cuda(&steps, work.after, args->after, stream));
    HD_TRY(hd_steps_gather_bootstrap_obs_cuda(&steps, work.after, args->after, work.obs, stream));
    return values_on_gpu(args, views, args->after, &work, work.after_value, stream);
}

static int finish_on_gpu(struct hd_context *context, const struct hd_view *views,
                         const void *memory)
{
    const struct hd_compute_advantages *args = memory;
    const struct hd_view *scale = &views[HD_ADVANTAGES_SCALE],
                         *returns = &views[HD_ADVANTAGES_RETURNS];
    const struct hd_advantages advantages =
        hd_advantages_get(views[HD_ADVANTAGES_TO].spec, views[HD_ADVANTAGES_TO].data);
    struct work_on_gpu work;
    lay_out_on_gpu(args, context->work_buffers[0], &work);
    struct hd_advantages_args wanted = {
        .steps = hd_trajectories_get_steps(views[HD_ADVANTAGES_TRAJECTORIES].spec,
                                           views[HD_ADVANTAGES_TRAJECTORIES].data),
        .gamma = args->gamma,
        .lambda = args->lambda,
        .value = work.value,
        .after = work.after,
        .after_value = work.after_value,
        .capacity = args->after,
        .work = work.targets,
        .advantage = advantages.advantage,
        .target = advantages.target,
        .value_before = advantages.value,
    };
    if (args->value_norm) {
        wanted.unit = hd_moments_get(scale->spec, scale->data);
        wanted.epsilon = hd_moments_get_epsilon(scale->spec);
    }
    if (returns->data)
        wanted.returns = hd_moments_get(returns->spec, returns->data);
    return hd_advantages_compute_cuda(&wanted, context->stream);
}

static bool supports(const void *memory)
{
    return !((const struct hd_compute_advantages *)memory)->vtrace;
}

const struct hd_gpu_verb hd_compute_advantages_on_gpu = {
    .supports = supports,
    .body = body_on_gpu,
    .finish = finish_on_gpu,
    .get_subtasks = get_subtasks_on_gpu,
    .ready = ready,
    .graph_capturable = true,
};
#endif
