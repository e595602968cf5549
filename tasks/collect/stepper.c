/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/collect/stepper.h"

#include "kernels/act/draw.h"
#include "runtime/base/crash.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"

#include <math.h>
#include <stdio.h>

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_envs_shape *shape, const struct hd_net *net, void *memory,
                       struct hd_stepper *stepper)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs;
    stepper->action = hd_arena_take(&arena, n * shape->frame.actions.dims, sizeof *stepper->action);
    stepper->taken = stepper->action;
    if (shape->outputs->squashed)
        stepper->taken =
            hd_arena_take(&arena, n * shape->frame.actions.dims, sizeof *stepper->taken);
    stepper->outcome.obs = hd_arena_take(&arena, n, (size_t)shape->obs.frame_bytes);
    stepper->outcome.reward = hd_arena_take(&arena, n, sizeof *stepper->outcome.reward);
    stepper->outcome.done = hd_arena_take(&arena, n, sizeof *stepper->outcome.done);
    stepper->outcome.truncated = hd_arena_take(&arena, n, sizeof *stepper->outcome.truncated);
    stepper->outputs =
        hd_arena_take(&arena, n * hd_net_count_outputs(net), sizeof *stepper->outputs);
    stepper->forward = hd_arena_take(&arena, hd_net_get_forward_bytes(net, n, 1), 1);
    return arena.used;
}

int hd_stepper_prepare(const struct hd_envs_shape *shape, const struct hd_net *net,
                       int64_t *scratch_p)
{
    struct hd_stepper unused;
    HD_TRY(hd_net_prepare(net, shape->envs, 0));
    *scratch_p = lay_out(shape, net, NULL, &unused);
    return HD_OK;
}

struct hd_stepper hd_stepper_get(const struct hd_envs_shape *shape, const struct hd_net *net,
                                 void *scratch)
{
    struct hd_stepper stepper = {0};
    lay_out(shape, net, scratch, &stepper);
    return stepper;
}

void hd_stepper_forward(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                        const struct hd_envs *envs, const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm)
{
    const struct hd_net_sequences step = {
        .steps = 1, .state = envs->state, .next_state = envs->state};
    const struct hd_net_pass pass = {.params = params,
                                     .running = stepper->running,
                                     .norm = norm,
                                     .obs = envs->obs,
                                     .rows = shape->envs,
                                     .sequences = shape->state > 0 ? &step : NULL,
                                     .work = stepper->forward};
    hd_net_forward(net, &pass, stepper->outputs);
}

void hd_stepper_choose_greedy(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                              const struct hd_envs *envs, const struct hd_net *net,
                              const void *params, const struct hd_obs_norm *norm)
{
    const int64_t outputs = hd_net_count_outputs(net), n = hd_net_count_actions(net);
    const struct hd_env_actions *actions = &shape->frame.actions;
    hd_stepper_forward(stepper, shape, envs, net, params, norm);
    for (int64_t i = 0; i < shape->envs; i++)
        shape->outputs->choose(actions, n, stepper->outputs + i * outputs,
                               stepper->action + i * actions->dims);
}

void hd_stepper_choose_randomly(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                                int64_t env, const struct hd_rng *rng, uint32_t first)
{
    const struct hd_env_actions *actions = &shape->frame.actions;
    union hd_action_number *action = stepper->action + env * actions->dims;
    if (shape->outputs->squashed)
        hd_act_squashed_randomly(actions->dims, rng, first, action);
    else
        hd_act_randomly(actions, rng, first, action);
}

#if HD_CUDA
int64_t hd_gpu_stepper_lay_out(const struct hd_envs_shape *shape, const struct hd_net *net,
                               void *memory, struct hd_gpu_stepper *stepper_p)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs;
    stepper_p->obs = hd_arena_take(&arena, n, (size_t)shape->obs.obs_bytes);
    stepper_p->out = hd_arena_take(&arena, n * hd_net_count_outputs(net), sizeof *stepper_p->out);
    stepper_p->forward = hd_arena_take(&arena, hd_net_get_forward_cuda_bytes(net, n), 1);
    return arena.used;
}

int hd_gpu_stepper_forward(const struct hd_gpu_stepper *stepper, const struct hd_envs_shape *shape,
                           const struct hd_net *net, const void *params,
                           const struct hd_obs_norm *norm, void *stream)
{
    return hd_net_forward_cuda(net, params, norm, stepper->obs, shape->envs, stepper->forward,
                               stepper->out, stream);
}
#endif

/* Writes "; env 0 is at step 12 from seed 345, …" to text: the env's own message may not say which
 * of a group failed. */
static void name_episodes(const struct hd_envs *envs, int64_t first, char *text, int64_t bytes)
{
    int64_t at = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < *envs->count && at < bytes; i++)
        at +=
            snprintf(text + at, (size_t)(bytes - at), "%s env %lld is at step %lld from seed %llu",
                     i ? "," : ";", (long long)(first + i), (long long)envs->episode_steps[i],
                     (unsigned long long)envs->seed[i]);
}

/* Numbers that are not finite would make the loss NaN, updates later and without a place. */
static int check_outcome(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                         const struct hd_envs *envs, int64_t i, struct hd_context *context)
{
    const float reward = stepper->outcome.reward[i];
    const bool rewarded = isfinite(reward);
    if (rewarded && hd_envs_is_frame_finite(shape, (const char *)stepper->outcome.obs +
                                                       i * shape->obs.frame_bytes))
        return HD_OK;
    char what[64] = "an observation that is not finite", shard[HD_SHARD_TEXT];
    if (!rewarded)
        snprintf(what, sizeof what, "the reward %g", (double)reward);
    return hd_body_fail(context, "%s%s: env %lld gave %s at step %lld from seed %llu", shape->about,
                        hd_shard_describe(context->shard, shard),
                        (long long)(hd_envs_get_first(shape, context->shard, context->item) + i),
                        what, (long long)envs->episode_steps[i] + 1,
                        (unsigned long long)envs->seed[i]);
}

static void scale_actions(const struct hd_stepper *stepper, const struct hd_envs_shape *shape)
{
    const struct hd_env_actions *actions = &shape->frame.actions;
    for (int64_t i = 0; i < shape->envs && shape->outputs->squashed; i++)
        hd_act_scale(actions, stepper->action + i * actions->dims,
                     stepper->taken + i * actions->dims);
}

static int fail_step(const struct hd_envs_shape *shape, const struct hd_envs *envs,
                     const char *message, struct hd_context *context)
{
    char episodes[HD_MESSAGE_BYTES], shard[HD_SHARD_TEXT];
    name_episodes(envs, hd_envs_get_first(shape, context->shard, context->item), episodes,
                  sizeof episodes);
    return hd_body_fail(context, "%s%s: %.256s%s", shape->env->name,
                        hd_shard_describe(context->shard, shard), message, episodes);
}

/* Does what comes before the envs step. */
static void prepare_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                         const struct hd_envs *envs, struct hd_context *context)
{
    scale_actions(stepper, shape);
    hd_context_note_step(context, hd_envs_get_first(shape, context->shard, context->item),
                         *envs->count > 0 ? envs->episode_steps[0] + 1 : 0);
}

/* Has the envs step, or end the step that has begun, and takes the outcome. */
static int finish_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                       struct hd_envs *envs, bool begun, struct hd_context *context)
{
    const struct hd_env *env = shape->env;
    char message[HD_ENV_MESSAGE] = "";
    hd_crash_set_part(shape->about);
    const int failed = begun ? env->end_step(*envs->group, &stepper->outcome, message)
                             : env->step(*envs->group, stepper->taken, &stepper->outcome, message);
    hd_crash_set_part(NULL);
    if (failed != 0)
        return fail_step(shape, envs, message, context);
    for (int64_t i = 0; i < *envs->count; i++) {
        HD_TRY(check_outcome(stepper, shape, envs, i, context));
        envs->episode_return[i] += (double)stepper->outcome.reward[i];
        envs->episode_steps[i]++;
        hd_envs_push_frame(shape, envs, i,
                           (const char *)stepper->outcome.obs + i * shape->obs.frame_bytes);
    }
    return HD_OK;
}

int hd_stepper_begin_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                          const struct hd_envs *envs, struct hd_context *context)
{
    char message[HD_ENV_MESSAGE] = "";
    prepare_step(stepper, shape, envs, context);
    if (!shape->env->begin_step)
        return HD_OK;
    hd_crash_set_part(shape->about);
    const int failed = shape->env->begin_step(*envs->group, stepper->taken, message);
    hd_crash_set_part(NULL);
    return failed != 0 ? fail_step(shape, envs, message, context)
                       : hd_body_wait(context, shape->env->await_step, *envs->group);
}

int hd_stepper_end_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                        struct hd_envs *envs, struct hd_context *context)
{
    return finish_step(stepper, shape, envs, hd_stepper_waits(shape), context);
}

int hd_stepper_step(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                    struct hd_envs *envs, struct hd_context *context)
{
    prepare_step(stepper, shape, envs, context);
    return finish_step(stepper, shape, envs, false, context);
}

static int start_env(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                     uint64_t env_seed, void *frame, struct hd_context *context)
{
    char message[HD_ENV_MESSAGE] = "", shard[HD_SHARD_TEXT];
    hd_context_note_step(context, hd_envs_get_first(shape, context->shard, context->item) + env, 0);
    if (hd_envs_start(shape, envs, env, env_seed, frame, message) == HD_OK)
        return HD_OK;
    return hd_body_fail(context, "%s%s: env %lld cannot start from seed %llu: %.256s",
                        shape->env->name, hd_shard_describe(context->shard, shard),
                        (long long)(hd_envs_get_first(shape, context->shard, context->item) + env),
                        (unsigned long long)env_seed, message);
}

int hd_stepper_start_next(const struct hd_envs_shape *shape, struct hd_envs *envs, int64_t env,
                          int64_t number, void *frame, struct hd_context *context)
{
    const uint64_t seed = context->seed;
    const int64_t shard = context->shard, episode = envs->episode[env];
    HD_TRY(
        start_env(shape, envs, env, hd_env_get_seed(seed, shard, number, episode), frame, context));
    if (shape->env->announce)
        shape->env->announce(*envs->group, env, hd_env_get_seed(seed, shard, number, episode + 1));
    return HD_OK;
}

int hd_stepper_start_episode(const struct hd_stepper *stepper, const struct hd_envs_shape *shape,
                             struct hd_envs *envs, uint64_t env_seed, struct hd_context *context)
{
    for (int64_t i = 0; i < *envs->count; i++)
        HD_TRY(start_env(shape, envs, i, env_seed, stepper->outcome.obs, context));
    return HD_OK;
}

double hd_stepper_compute_mean_reward(const struct hd_stepper *stepper,
                                      const struct hd_envs_shape *shape)
{
    double sum = 0;
    for (int64_t i = 0; i < shape->envs; i++)
        sum += (double)stepper->outcome.reward[i];
    return sum / (double)shape->envs;
}
