/* SPDX-License-Identifier: Apache-2.0 */
/* A naive on-policy collector (docs/di-engine.md 3.3 and 4) of one environment group: a list of
 * steps for each env, each with its full observations. It shares with the program only the env, the
 * net's outputs and the stream of random numbers. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/types/collect/envs.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { NAIVE_ENVS = 8, NAIVE_OBS_BYTES = 4 * 36 * 40, NAIVE_ACTIONS = 3, NAIVE_SAMPLES = 512 };

struct naive_sample {
    unsigned char obs[NAIVE_OBS_BYTES], next_obs[NAIVE_OBS_BYTES];
    float logit[NAIVE_ACTIONS], reward;
    int32_t action;
    bool done, end;
};

struct naive_env {
    void *group; /* of one env */
    unsigned char obs[NAIVE_OBS_BYTES];
    struct naive_sample list[NAIVE_SAMPLES];
    int64_t listed, episode, steps;
    double episode_return;
};

struct naive_group {
    /* Its configuration. */
    const struct hd_envs_shape *shape;
    const struct hd_net *net;
    const void *params;
    const struct hd_obs_norm *norm;
    uint64_t seed;
    int64_t shard, all, first, envs; /* envs [first, first + envs) of the shard's `all` */
    int64_t n_sample;
    bool segment_at_done, takes_turns;
    int64_t turn; /* the env that comes first */
    struct naive_env env[NAIVE_ENVS];
    /* The result of the last collect. */
    struct naive_sample samples[NAIVE_SAMPLES];
    int64_t collected, env_steps, ended;
    double returns[NAIVE_SAMPLES], lengths[NAIVE_SAMPLES];
};

/* Fills an observation with the env's first frame. */
static inline void naive_reset(struct naive_group *group, int64_t i)
{
    struct naive_env *env = &group->env[i];
    const struct hd_obs_shape *obs = &group->shape->obs;
    const uint64_t seed =
        hd_env_get_seed(group->seed, group->shard, group->first + i, env->episode);
    char message[HD_ENV_MESSAGE];
    ck_assert_int_eq(group->shape->env->reset(env->group, 0, seed, env->obs, message), 0);
    for (int64_t k = 1; k < obs->stack; k++)
        memcpy(env->obs + k * obs->frame_bytes, env->obs, (size_t)obs->frame_bytes);
    env->episode_return = 0;
    env->steps = 0;
}

static inline void naive_open(struct naive_group *group)
{
    struct hd_env_settings settings = group->shape->settings;
    struct hd_env_spec spec;
    char message[HD_ENV_MESSAGE];
    settings.envs = 1;
    ck_assert_int_le(group->envs, NAIVE_ENVS);
    ck_assert_int_le(group->shape->obs.obs_bytes, NAIVE_OBS_BYTES);
    for (int64_t i = 0; i < group->envs; i++) {
        void **made = &group->env[i].group;
        ck_assert_int_eq(group->shape->env->create(&settings, &spec, made, message), 0);
        naive_reset(group, i);
    }
}

static inline void naive_close(struct naive_group *group)
{
    for (int64_t i = 0; i < group->envs; i++)
        group->shape->env->destroy(group->env[i].group);
}

/* DI-engine's multinomial over softmax + 1e-8: the first action whose cumulated share exceeds u. */
static inline int32_t naive_draw(const float *logit, int64_t n, double u)
{
    double p[NAIVE_ACTIONS], sum = 0, total = 0, below = 0;
    for (int64_t j = 0; j < n; j++)
        sum += p[j] = exp((double)logit[j]);
    for (int64_t j = 0; j < n; j++)
        total += p[j] = p[j] / sum + 1e-8;
    for (int64_t j = 0; j < n; j++)
        if (u < (below += p[j] / total))
            return (int32_t)j;
    return (int32_t)n - 1;
}

/* Turns the list's steps into samples. */
static inline void naive_flush(struct naive_group *group, struct naive_env *env)
{
    for (int64_t s = 0; s < env->listed; s++, group->collected++) {
        if (group->collected >= group->n_sample)
            continue;
        struct naive_sample *sample = &group->samples[group->collected];
        *sample = env->list[s];
        sample->end = sample->done || s + 1 == env->listed;
    }
    env->listed = 0;
}

static inline void naive_step_env(struct naive_group *group, int64_t i, const float *logit,
                                  int32_t action)
{
    struct naive_env *env = &group->env[i];
    const struct hd_obs_shape *obs = &group->shape->obs;
    const int64_t older = obs->obs_bytes - obs->frame_bytes;
    unsigned char frame[NAIVE_OBS_BYTES];
    char message[HD_ENV_MESSAGE];
    bool truncated;
    ck_assert_int_lt(env->listed, NAIVE_SAMPLES);
    struct naive_sample *step = &env->list[env->listed++];
    const struct hd_env_outcome outcome = {frame, &step->reward, &step->done, &truncated};
    memset(step, 0, sizeof *step);
    step->action = action;
    memcpy(step->logit, logit, (size_t)group->shape->frame.actions.n[0] * sizeof *logit);
    memcpy(step->obs, env->obs, (size_t)obs->obs_bytes);
    ck_assert_int_eq(group->shape->env->step(env->group, &action, &outcome, message), 0);
    memmove(env->obs, env->obs + obs->frame_bytes, (size_t)older);
    memcpy(env->obs + older, frame, (size_t)obs->frame_bytes);
    memcpy(step->next_obs, env->obs, (size_t)obs->obs_bytes);
    env->episode_return += (double)step->reward;
    env->steps++;
    group->env_steps++;
    const bool done = step->done;
    if ((done && group->segment_at_done) ||
        env->listed == (group->n_sample + group->envs - 1) / group->envs)
        naive_flush(group, env);
    if (!done)
        return;
    group->returns[group->ended] = env->episode_return;
    group->lengths[group->ended++] = (double)env->steps;
    env->episode++;
    naive_reset(group, i);
}

/* Makes a collect: item f all + e of `rng` samples the action of env e of all in step f of its
 * group. */
static inline void naive_collect(struct naive_group *group, const struct hd_rng *rng)
{
    const int64_t bytes = group->shape->obs.obs_bytes, outputs = hd_net_count_outputs(group->net);
    unsigned char *obs = hd_alloc(group->envs, (size_t)bytes);
    float *out = hd_alloc(group->envs * outputs, sizeof *out);
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(group->net, group->envs, 1));
    group->collected = group->env_steps = group->ended = 0;
    for (int64_t i = 0; i < group->envs; i++)
        group->env[i].listed = 0; /* unfinished lists are dropped, envs go on */
    for (int64_t f = 0; group->collected < group->n_sample; f++) {
        for (int64_t i = 0; i < group->envs; i++)
            memcpy(obs + i * bytes, group->env[i].obs, (size_t)bytes);
        forward_rows(group->net, group->params, group->norm, obs, group->envs, work, out);
        for (int64_t k = 0; k < group->envs; k++) {
            const int64_t i = (group->turn + k) % group->envs;
            const double u =
                hd_rng_draw_uniform(rng, (uint32_t)(f * group->all + group->first + i));
            const int32_t action =
                naive_draw(out + i * outputs, group->shape->frame.actions.n[0], u);
            naive_step_env(group, i, out + i * outputs, action);
        }
    }
    const int64_t fragment = (group->n_sample + group->envs - 1) / group->envs;
    const int64_t served = (group->n_sample + fragment - 1) / fragment;
    if (group->takes_turns)
        group->turn = (group->turn + (served == group->envs ? 1 : served)) % group->envs;
    hd_free(obs);
    hd_free(out);
    hd_free(work);
}
