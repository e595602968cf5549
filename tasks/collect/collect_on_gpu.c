/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `collect_on_gpu`: does what collect_on_policy does with one environment group and
 * policy.collect.segment_at_done false, for envs of type gpu_envs. It is one task on a GPU, from
 * which nothing returns to the host before its end, and then only counters and ended episodes.
 * Without a GPU one task on a CPU computes bitwise identical logits and trajectories. */
#include "kernels/net/net.h"
#include "kernels/rollout/fragments.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "tasks/arena.h"
#include "tasks/builtin.h"
#include "tasks/collect/episodes.h"
#include "tasks/types/collect/gpu_envs.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/learn/policy_net.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/moments.h"

#include <string.h>

enum { POLICY, NORM, ENVS, COUNTERS, EPISODES, TRAJECTORIES };

static const struct hd_port ports[] = {
    [POLICY] = {.name = "policy", .type = "params", .mode = HD_READ},
    [NORM] = {.name = "obs_norm", .type = "moments", .mode = HD_READ, .optional = true},
    [ENVS] = {.name = "envs", .type = "gpu_envs", .mode = HD_UPDATE},
    [COUNTERS] = {.name = "counters",
                  .type = "env_counters",
                  .mode = HD_UPDATE,
                  .scope = HD_SCOPE_FINISH},
    [EPISODES] = {.name = "episodes",
                  .type = "scalars",
                  .mode = HD_UPDATE,
                  .scope = HD_SCOPE_FINISH},
    [TRAJECTORIES] = {.name = "trajectories", .type = "trajectories", .mode = HD_WRITE},
    {0},
};

struct args {
    const struct hd_net *net;
    const struct hd_spec *to;
    int64_t envs, steps;
};

static int declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[NORM]));
    return hd_episodes_declare(setup, setup->specs[EPISODES]);
}

static int check_fragments(const struct hd_setup *setup, const struct hd_trajectories_shape *to)
{
    const struct hd_node *node =
        hd_config_get_node(setup->config, "policy.collect.segment_at_done");
    if (!to->segment_at_done)
        return HD_OK;
    return hd_diag_add_error(setup->diag, node ? node->location : setup->location,
                             "policy.collect.segment_at_done: %s needs it to be false",
                             setup->verb);
}

static int prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_spec *to = setup->specs[TRAJECTORIES];
    const struct hd_net *net = hd_params_get_net(setup->specs[POLICY]);
    if (hd_net_get_heads(net) != HD_HEADS_ACTOR_CRITIC)
        return hd_policy_net_refuse_type(setup, "ppo",
                                         "collect_on_gpu samples from the logits of an actor");
    HD_TRY(check_fragments(setup, hd_trajectories_get_shape(to)));
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[POLICY], HD_NO_BATCH_NORM_STATS));
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->net = net;
    args->to = to;
    args->envs = hd_trajectories_get_shape(to)->envs;
    args->steps = hd_trajectories_get_shape(to)->steps;
    return hd_net_prepare(net, args->envs, 0);
}

/* -- Memory of a task -------------------------------------------------------------------------- */

struct scratch {
    bool *truncated;      /* [E][T] */
    double *ended_return; /* [E][T] */
    int64_t *ended_steps; /* [E][T] */
    float *out;           /* [E][outputs] */
    char *forward;        /* [forward_bytes] */
};

static int64_t lay_out(const struct args *args, int64_t forward_bytes, void *memory,
                       struct scratch *scratch)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t steps = args->envs * args->steps;
    scratch->truncated = hd_arena_take(&arena, steps, sizeof *scratch->truncated);
    scratch->ended_return = hd_arena_take(&arena, steps, sizeof *scratch->ended_return);
    scratch->ended_steps = hd_arena_take(&arena, steps, sizeof *scratch->ended_steps);
    scratch->out =
        hd_arena_take(&arena, args->envs * hd_net_count_outputs(args->net), sizeof *scratch->out);
    scratch->forward = hd_arena_take(&arena, forward_bytes, 1);
    return arena.used;
}

static int64_t scratch(const void *memory)
{
    const struct args *args = memory;
    struct scratch unused;
    return lay_out(args, hd_net_get_forward_bytes(args->net, args->envs), NULL, &unused);
}

/* The header of the item holds the counters and ended episodes, with which trajectories begin. */
static void get_subtasks(const void *memory, struct hd_subtasks *subtasks_p)
{
    const struct args *args = memory;
    *subtasks_p = (struct hd_subtasks){
        .items = 1, .stages = 1, .header_bytes = hd_trajectories_get_counter_bytes(args->to)};
}

/* -- On either processor ----------------------------------------------------------------------- */

struct collector {
    struct hd_pixel_pong_envs envs;
    struct hd_trajectories t;
    struct hd_pixel_pong_steps steps;
    struct hd_fragments fragments;
    struct hd_fragment_ends ends;
    struct hd_obs_norm norm_storage;
    const struct hd_obs_norm *norm;
    struct scratch scratch;
};

static struct hd_pixel_pong_steps steps_of(const struct hd_trajectories_shape *shape,
                                           const struct hd_trajectories *t,
                                           const struct scratch *scratch)
{
    return (struct hd_pixel_pong_steps){
        .steps = shape->steps,
        .frames = shape->frames,
        .shown = t->shown,
        .age = t->age,
        .frame_data = (uint8_t *)t->frames,
        .action = t->action,
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
        .actions = shape->actions,
        .logit = t->logit,
        .action = t->action,
        .row = t->row,
        .end = t->end,
        .made = t->made,
        .forward = t->forward,
        .ended = t->ended,
        .ended_return = t->ended_return,
        .ended_steps = t->ended_steps,
    };
}

static void init_collector(struct collector *c, const struct hd_context *context,
                           const struct hd_view *views, const struct args *args,
                           int64_t forward_bytes)
{
    const struct hd_view *envs = &views[ENVS], *to = &views[TRAJECTORIES];
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(to->spec);
    lay_out(args, forward_bytes, context->scratch, &c->scratch);
    c->envs = hd_gpu_envs_get(envs->spec, envs->data, context->seed, context->shard);
    c->t = hd_trajectories_get(to->spec, to->data, 0);
    c->steps = steps_of(shape, &c->t, &c->scratch);
    c->fragments = make_fragments(shape, &c->t);
    c->ends = (struct hd_fragment_ends){c->t.done, c->scratch.ended_return, c->scratch.ended_steps};
    c->norm = hd_moments_get_obs_norm(&views[NORM], &c->norm_storage);
}

static int body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    struct collector c;
    init_collector(&c, context, views, args, hd_net_get_forward_bytes(args->net, args->envs));
    hd_trajectories_clear(views[TRAJECTORIES].spec, views[TRAJECTORIES].data, 0);
    hd_pixel_pong_begin(&c.envs, &c.steps);
    for (int64_t t = 0; t < args->steps; t++) {
        hd_net_forward(args->net, views[POLICY].data, c.norm, c.envs.obs, args->envs,
                       c.scratch.forward, c.scratch.out);
        hd_fragments_draw_actions(&c.fragments, c.scratch.out, hd_net_count_outputs(args->net),
                                  &context->rng, (uint32_t)(t * args->envs), t);
        hd_pixel_pong_play(&c.envs, &c.steps, t);
    }
    hd_fragments_complete(&c.fragments, &c.ends);
    memcpy(context->header, c.t.made, (size_t)hd_trajectories_get_counter_bytes(args->to));
    return HD_OK;
}

#if HD_CUDA
static int64_t scratch_on_gpu(const void *memory)
{
    const struct args *args = memory;
    struct scratch unused;
    return lay_out(args, hd_net_get_forward_cuda_bytes(args->net, args->envs), NULL, &unused);
}

static int ready_on_gpu(const void *memory)
{
    const struct args *args = memory;
    return hd_net_prepare_cuda(args->net, args->envs, 0);
}

static int body_on_gpu(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    void *stream = context->stream;
    struct collector c;
    init_collector(&c, context, views, args, hd_net_get_forward_cuda_bytes(args->net, args->envs));
    HD_TRY(hd_fragments_clear_cuda(c.t.made, hd_trajectories_count_header_bytes(args->to), stream));
    HD_TRY(hd_pixel_pong_begin_cuda(&c.envs, &c.steps, stream));
    for (int64_t t = 0; t < args->steps; t++) {
        HD_TRY(hd_net_forward_cuda(args->net, views[POLICY].data, c.norm, c.envs.obs, args->envs,
                                   c.scratch.forward, c.scratch.out, stream));
        HD_TRY(hd_fragments_draw_actions_cuda(&c.fragments, c.scratch.out,
                                              hd_net_count_outputs(args->net), &context->rng,
                                              (uint32_t)(t * args->envs), t, stream));
        HD_TRY(hd_pixel_pong_play_cuda(&c.envs, &c.steps, t, stream));
    }
    HD_TRY(hd_fragments_complete_cuda(&c.fragments, &c.ends, stream));
    return hd_device_copy(context->header, c.t.made, hd_trajectories_get_counter_bytes(args->to),
                          stream);
}

static const struct hd_gpu_verb on_gpu = {
    .body = body_on_gpu,
    .scratch = scratch_on_gpu,
    .ready = ready_on_gpu,
};
#endif

/* Adds what the envs did to counters and statistics, as collect_on_policy does. */
static int finish(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    const struct hd_trajectories t = hd_trajectories_get(args->to, context->headers[0], 0);
    hd_episodes_push_all(&views[EPISODES], &t, args->envs, views[COUNTERS].data);
    return HD_OK;
}

const struct hd_verb hd_verb_collect_on_gpu = {
    .name = "collect_on_gpu",
    .stream_id = 0x2cbed1e64b1b9e38,
    .ports = ports,
    .declare = declare,
    .prepare = prepare,
    .scratch = scratch,
    .body = body,
    .get_subtasks = get_subtasks,
    .finish = finish,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "plays environments on the GPU with actions sampled from the policy until n_sample "
            "samples are made",
};
