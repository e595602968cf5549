/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/collect/play_on_gpu.h"

#include "kernels/rollout/fragments.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "tasks/base/arena.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/output/moments.h"

int64_t hd_play_header_lay_out(const struct hd_spec *trajectories, void *memory,
                               struct hd_play_header *header_p)
{
    struct hd_arena arena = {.memory = memory};
    header_p->rng = hd_arena_take(&arena, 1, sizeof *header_p->rng);
    header_p->counters = hd_arena_take(&arena, hd_trajectories_get_counter_bytes(trajectories), 1);
    return arena.used;
}

#if HD_CUDA

struct scratch {
    bool *truncated;      /* [E][T] */
    double *ended_return; /* [E][T] */
    int64_t *ended_steps; /* [E][T] */
    float *out;           /* [E][outputs] */
    char *forward;        /* work memory of the net's pass */
};

static int64_t lay_out(const struct hd_net *net, const struct hd_trajectories_shape *shape,
                       void *memory, struct scratch *scratch)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t steps = shape->envs * shape->steps;
    scratch->truncated = hd_arena_take(&arena, steps, sizeof *scratch->truncated);
    scratch->ended_return = hd_arena_take(&arena, steps, sizeof *scratch->ended_return);
    scratch->ended_steps = hd_arena_take(&arena, steps, sizeof *scratch->ended_steps);
    scratch->out =
        hd_arena_take(&arena, shape->envs * hd_net_count_outputs(net), sizeof *scratch->out);
    scratch->forward = hd_arena_take(&arena, hd_net_get_forward_cuda_bytes(net, shape->envs), 1);
    return arena.used;
}

int64_t hd_play_on_gpu_get_scratch(const struct hd_net *net, const struct hd_spec *trajectories)
{
    struct scratch unused;
    return lay_out(net, hd_trajectories_get_shape(trajectories), NULL, &unused);
}

static struct hd_env_gpu_steps make_steps(const struct hd_trajectories_shape *shape,
                                          const struct hd_trajectories *t,
                                          const struct scratch *scratch)
{
    return (struct hd_env_gpu_steps){
        .steps = shape->steps,
        .frames = shape->frames,
        .shown = t->shown,
        .age = t->age,
        .frame_data = (uint8_t *)t->frames,
        .action = &t->action->choice, /* single choices (hd_envs_shape.on_gpu) */
        .frame = t->frame,
        .frame_age = t->frame_age,
        .reward = t->reward,
        .done = t->done,
        .truncated = scratch->truncated,
        .ended_return = scratch->ended_return,
        .ended_steps = scratch->ended_steps,
    };
}

static struct hd_fragments make_fragments(const struct hd_trajectories_shape *shape,
                                          const struct hd_trajectories *t)
{
    return (struct hd_fragments){
        .envs = shape->envs,
        .steps = shape->steps,
        .samples = shape->samples,
        .actions = shape->logits,
        .logit = t->logit,
        .value = t->value,
        .action = &t->action->choice,
        .row = t->row,
        .end = t->end,
        .made = t->made,
        .forward = t->forward,
        .ended = t->ended,
        .ended_return = t->ended_return,
        .ended_steps = t->ended_steps,
    };
}

int hd_play_on_gpu(const struct hd_play_on_gpu *play, const struct hd_context *context)
{
    const struct hd_spec *spec = play->trajectories->spec;
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(spec);
    const struct hd_trajectories t = hd_trajectories_get(spec, play->trajectories->data, 0);
    const struct hd_env_gpu_envs envs =
        hd_envs_get_on_gpu(play->envs->spec, play->envs->data, context->seed, context->shard);
    struct scratch scratch;
    struct hd_play_header header;
    struct hd_obs_norm storage;
    hd_play_header_lay_out(spec, context->header, &header);
    lay_out(play->net, shape, context->scratch, &scratch);
    const struct hd_obs_norm *norm = hd_moments_get_obs_norm(play->obs_norm, &storage);
    const struct hd_env_gpu *gpu = hd_envs_get_shape(play->envs->spec)->env->gpu;
    const struct hd_env_gpu_steps steps = make_steps(shape, &t, &scratch);
    const struct hd_fragments fragments = make_fragments(shape, &t);
    const struct hd_fragment_ends ends = {t.done, scratch.ended_return, scratch.ended_steps};
    void *stream = context->stream;
    HD_TRY(hd_fragments_clear_cuda(t.made, hd_trajectories_count_header_bytes(spec), stream));
    HD_TRY(gpu->begin(&envs, &steps, stream));
    for (int64_t step = 0; step < shape->steps; step++) {
        HD_TRY(hd_net_forward_cuda(play->net, play->policy->data, norm, envs.obs, shape->envs,
                                   scratch.forward, scratch.out, stream));
        HD_TRY(hd_fragments_draw_actions_cuda(&fragments, scratch.out,
                                              hd_net_count_outputs(play->net), header.rng,
                                              (uint32_t)(step * shape->envs), step, stream));
        HD_TRY(gpu->play(&envs, &steps, step, stream));
    }
    HD_TRY(hd_fragments_complete_cuda(&fragments, &ends, stream));
    return hd_device_copy(header.counters, t.made, hd_trajectories_get_counter_bytes(spec), stream);
}

#endif
