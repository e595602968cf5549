/* SPDX-License-Identifier: Apache-2.0 */
/* A naive collector with one list of steps per env, each with its full observations. It shares with
 * the program only the env, the net's outputs and the stream of random numbers. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/output/env_counters.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { MAX_ENVS = 8, MAX_FRAME_BYTES = 36 * 40, MAX_STACK = 4, MAX_ACTIONS = 4 };
enum { MAX_OBS_BYTES = MAX_FRAME_BYTES * MAX_STACK, MAX_STEPS = 256, MAX_LIST = 128 };

struct naive_step {
    unsigned char obs[MAX_OBS_BYTES], next_obs[MAX_OBS_BYTES];
    float reward;
    int32_t action;
    bool done;
};

struct naive_sample {
    unsigned char obs[MAX_OBS_BYTES], next_obs[MAX_OBS_BYTES];
    double reward[8], gamma;
    int32_t action;
    bool done;
};

struct naive_env {
    void *group;                                          /* of one env */
    unsigned char frames[MAX_STEPS + 1][MAX_FRAME_BYTES]; /* of the present episode */
    int64_t steps;                                        /* of the present episode */
    struct naive_step list[MAX_LIST];
    int64_t listed, episode;
    double reward;
};

/* policy.collect.surplus */
enum naive_surplus { NAIVE_FIRST, NAIVE_TURNS, NAIVE_KEEP };

struct naive {
    int64_t n_sample, envs, nstep, shard;
    double gamma, epsilon;
    const struct hd_envs_shape *shape;
    const struct hd_net *net;
    const void *params;
    uint64_t seed;
    struct naive_env env[MAX_ENVS];
    struct hd_env_counters counters;
    double returns[8192], lengths[8192];
    struct naive_sample *samples; /* that were not dropped, of all collects */
    int64_t kept, waiting;        /* all of them, and those that no collect has handed over yet */
    enum naive_surplus surplus;
    int64_t turn; /* the env that comes first */
};

static inline void naive_reset(struct naive *naive, int64_t i)
{
    struct naive_env *env = &naive->env[i];
    char message[HD_ENV_MESSAGE];
    uint64_t seed = hd_env_get_seed(naive->seed, naive->shard, i, env->episode);
    ck_assert_int_eq(naive->shape->env->reset(env->group, 0, seed, env->frames[0], message), 0);
    env->reward = 0;
    env->steps = 0;
}

static inline void naive_open(struct naive *naive, int64_t samples)
{
    struct hd_env_settings settings = naive->shape->settings;
    struct hd_env_spec spec;
    char message[HD_ENV_MESSAGE];
    settings.envs = 1;
    naive->samples = hd_alloc(samples, sizeof *naive->samples);
    for (int64_t i = 0; i < naive->envs; i++) {
        ck_assert_int_eq(naive->shape->env->create(&settings, &spec, &naive->env[i].group, message),
                         0);
        naive_reset(naive, i);
    }
}

static inline void naive_close(struct naive *naive)
{
    for (int64_t i = 0; i < naive->envs; i++)
        naive->shape->env->destroy(naive->env[i].group);
    hd_free(naive->samples);
}

/* Returns the observation after step number `step` of the episode. */
static inline void naive_obs(const struct naive *naive, const struct naive_env *env, int64_t step,
                             unsigned char *obs)
{
    const int64_t stack = naive->shape->obs.stack, bytes = naive->shape->obs.frame_bytes;
    for (int64_t j = 0; j < stack; j++) {
        int64_t k = step - stack + 1 + j;
        memcpy(obs + j * bytes, env->frames[k < 0 ? 0 : k], (size_t)bytes);
    }
}

/* Makes sample i of an env's list by DI-engine's rule (docs/di-engine.md 2.4). */
static inline struct naive_sample naive_nstep(const struct naive *naive,
                                              const struct naive_env *env, int64_t i)
{
    const struct naive_step *list = env->list;
    struct naive_sample sample = {.action = list[i].action};
    int64_t n = naive->nstep, length = env->listed;
    int64_t last = i + n - 1 < length ? i + n - 1 : length - 1;
    memcpy(sample.obs, list[i].obs, sizeof sample.obs);
    memcpy(sample.next_obs, list[last].next_obs, sizeof sample.next_obs);
    for (int64_t j = i; j <= last; j++)
        sample.reward[j - i] = (double)list[j].reward;
    sample.done = list[last].done;
    sample.gamma = pow(naive->gamma, (double)(i < length - n ? n : length - i - 1));
    return sample;
}

static inline int64_t naive_fragment(const struct naive *naive)
{
    return (naive->n_sample + naive->envs - 1) / naive->envs;
}

static inline void naive_step_env(struct naive *naive, int64_t i, int32_t action,
                                  int64_t *collected)
{
    struct naive_env *env = &naive->env[i];
    struct naive_step *step = &env->list[env->listed++];
    char message[HD_ENV_MESSAGE];
    bool truncated;
    memset(step, 0, sizeof *step);
    step->action = action;
    naive_obs(naive, env, env->steps, step->obs);
    ck_assert_int_lt(env->steps, MAX_STEPS);
    struct hd_env_outcome outcome = {env->frames[++env->steps], &step->reward, &step->done,
                                     &truncated};
    ck_assert_int_eq(naive->shape->env->step(env->group, &action, &outcome, message), 0);
    naive_obs(naive, env, env->steps, step->next_obs);
    env->reward += (double)step->reward;
    naive->counters.env_step++;
    bool done = step->done;
    if (done || env->listed == naive_fragment(naive)) {
        for (int64_t s = 0; s < env->listed; s++)
            if ((*collected)++ < naive->n_sample || naive->surplus == NAIVE_KEEP)
                naive->samples[naive->kept++] = naive_nstep(naive, env, s);
        env->listed = 0;
    }
    if (done) {
        naive->returns[naive->counters.episode] = env->reward;
        naive->lengths[naive->counters.episode++] = (double)env->steps;
        env->episode++;
        naive_reset(naive, i);
    }
}

/* Chooses greedy actions for all envs in one pass, because the rounding of convolutional nets
 * depends on the number of rows. */
static inline void naive_greedy(const struct naive *naive, int32_t *action)
{
    const int64_t bytes = naive->shape->obs.obs_bytes, actions = naive->shape->frame.actions.n[0];
    float q[MAX_ENVS * MAX_ACTIONS];
    unsigned char *obs = hd_alloc(naive->envs, (size_t)bytes);
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(naive->net, naive->envs, 1));
    for (int64_t i = 0; i < naive->envs; i++)
        naive_obs(naive, &naive->env[i], naive->env[i].steps, obs + i * bytes);
    forward_rows(naive->net, naive->params, NULL, obs, naive->envs, work, q);
    hd_free(work);
    hd_free(obs);
    for (int64_t i = 0; i < naive->envs; i++) {
        action[i] = 0;
        for (int32_t a = 1; a < actions; a++)
            if (q[i * actions + a] > q[i * actions + action[i]])
                action[i] = a;
    }
}

/* Makes one collect, whose step's stream is `rng`. */
static inline void naive_collect(struct naive *naive, struct hd_rng rng)
{
    int32_t action[MAX_ENVS];
    int64_t collected = naive->waiting;
    for (uint32_t item = 0; collected < naive->n_sample; item += (uint32_t)naive->envs + 1) {
        if (hd_rng_draw_uniform(&rng, item) > naive->epsilon)
            naive_greedy(naive, action);
        else
            for (int64_t i = 0; i < naive->envs; i++)
                action[i] = (int32_t)hd_rng_draw_below(&rng, item + 1 + (uint32_t)i,
                                                       naive->shape->frame.actions.n[0]);
        for (int64_t i = 0; i < naive->envs; i++)
            naive_step_env(naive, (naive->turn + i) % naive->envs,
                           action[(naive->turn + i) % naive->envs], &collected);
    }
    const int64_t beyond = collected - naive->n_sample, longest = naive_fragment(naive);
    naive->waiting = naive->surplus == NAIVE_KEEP ? beyond : 0;
    naive->counters.sample += collected - naive->waiting;
    naive->counters.dropped += beyond - naive->waiting;
    const int64_t served = (naive->n_sample + longest - 1) / longest;
    if (naive->surplus == NAIVE_TURNS)
        naive->turn = (naive->turn + (served == naive->envs ? 1 : served)) % naive->envs;
}
