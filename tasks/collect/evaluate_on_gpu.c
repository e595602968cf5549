/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/collect/evaluate_on_gpu.h"

#include "kernels/envs/env_gpu.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "tasks/base/arena.h"
#include "tasks/types/output/moments.h"

/* The header, and what the GPU's work memory begins with. */
static int64_t lay_out(const struct hd_evaluate_on_gpu *evaluate, void *memory,
                       struct hd_evaluate_header *header)
{
    const int64_t envs = evaluate->envs->groups;
    const struct hd_env_gpu *gpu = evaluate->envs->env->gpu;
    const int64_t games = gpu ? gpu->get_bytes(envs) : 0;
    struct hd_arena arena = {.memory = memory};
    header->played = hd_arena_take(&arena, envs, (size_t)evaluate->played_bytes);
    header->games = hd_arena_take(&arena, games, 1);
    return arena.used;
}

struct hd_evaluate_header hd_evaluate_get_header(const struct hd_evaluate_on_gpu *evaluate,
                                                 void *memory)
{
    struct hd_evaluate_header header;
    lay_out(evaluate, memory, &header);
    return header;
}

int64_t hd_evaluate_get_header_bytes(const struct hd_evaluate_on_gpu *evaluate)
{
    struct hd_evaluate_header unused;
    return lay_out(evaluate, NULL, &unused);
}

#if HD_CUDA

/* A call queues the work of a millisecond or two, so that updates need not wait for longer. */
enum { STEPS_OF_A_CALL = 16 };

int64_t hd_evaluate_get_work_bytes(const struct hd_evaluate_on_gpu *evaluate)
{
    return hd_evaluate_get_header_bytes(evaluate) +
           evaluate->envs->groups * evaluate->envs->obs.obs_bytes;
}

struct scratch {
    float *out;    /* [E][outputs] */
    char *forward; /* work memory of the net's pass */
};

static int64_t lay_out_scratch(const struct hd_evaluate_on_gpu *evaluate, void *memory,
                               struct scratch *scratch)
{
    const struct hd_net *net = evaluate->net;
    const int64_t envs = evaluate->envs->groups;
    struct hd_arena arena = {.memory = memory};
    scratch->out = hd_arena_take(&arena, envs * hd_net_count_outputs(net), sizeof *scratch->out);
    scratch->forward = hd_arena_take(&arena, hd_net_get_forward_cuda_bytes(net, envs), 1);
    return arena.used;
}

int64_t hd_evaluate_get_scratch_bytes(const struct hd_evaluate_on_gpu *evaluate)
{
    struct scratch unused;
    return lay_out_scratch(evaluate, NULL, &unused);
}

static int begin(const struct hd_evaluate_on_gpu *evaluate,
                 const struct hd_env_gpu_evaluation *envs, const struct hd_context *context)
{
    HD_TRY(hd_device_copy(context->work, context->header, hd_evaluate_get_header_bytes(evaluate),
                          context->stream));
    return evaluate->envs->env->gpu->begin_evaluation(envs, context->stream);
}

static int play(const struct hd_evaluate_on_gpu *evaluate, const struct hd_env_gpu_evaluation *envs,
                const void *params, const struct hd_obs_norm *norm,
                const struct hd_context *context)
{
    const struct hd_net *net = evaluate->net;
    struct scratch scratch;
    lay_out_scratch(evaluate, context->scratch, &scratch);
    for (int step = 0; step < STEPS_OF_A_CALL; step++) {
        HD_TRY(hd_net_forward_cuda(net, params, norm, envs->obs, envs->envs, scratch.forward,
                                   scratch.out, context->stream));
        HD_TRY(evaluate->envs->env->gpu->evaluate(envs, scratch.out, hd_net_count_outputs(net),
                                                  context->stream));
    }
    return hd_device_copy(hd_evaluate_get_header(evaluate, context->header).played, envs->played,
                          envs->envs * envs->played_bytes, context->stream);
}

int hd_evaluate_on_gpu(const struct hd_evaluate_on_gpu *evaluate, const struct hd_view *policy,
                       const struct hd_view *obs_norm, const struct hd_context *context)
{
    const struct hd_evaluate_header here = hd_evaluate_get_header(evaluate, context->work);
    const struct hd_env_gpu_evaluation envs = {
        .envs = evaluate->envs->groups,
        .stack = evaluate->envs->obs.stack,
        .max_steps = evaluate->max_steps,
        .group = here.games,
        .obs = (uint8_t *)context->work + hd_evaluate_get_header_bytes(evaluate),
        .played = here.played,
        .played_bytes = evaluate->played_bytes,
    };
    struct hd_obs_norm norm;
    if (context->stage == HD_EVALUATE_BEGIN)
        return begin(evaluate, &envs, context);
    return play(evaluate, &envs, policy->data, hd_moments_get_obs_norm(obs_norm, &norm), context);
}

#endif
