/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `collect`: plays a shard's envs until n_sample transitions are made (spec 4, off-policy, all
 * envs stepping together). Chunks that are unfinished then go on in the next collect; samples
 * beyond n_sample are dropped.
 *
 * Items of the step's stream, for forward f over E envs: f (E + 1) is the coin that decides between
 * greedy and random for all envs at once (spec 2.7), f (E + 1) + 1 + e the random action of env e.
 */
#include "kernels/exploration.h"
#include "kernels/nstep.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/episodes.h"
#include "tasks/play.h"
#include "tasks/types/counts.h"
#include "tasks/types/norm_state.h"
#include "tasks/types/params.h"
#include "tasks/types/rollout.h"

#include <string.h>

enum { POLICY, TOTALS, ENVS, COUNTS, EPISODES, ROLLOUT };

static const struct hd_port ports[] = {
    [POLICY] = {.name = "policy", .type = "params", .mode = HD_READ},
    [TOTALS] = {.name = "totals", .type = "counts", .mode = HD_READ},
    [ENVS] = {.name = "envs", .type = "envs", .mode = HD_UPDATE},
    [COUNTS] = {.name = "counts", .type = "counts", .mode = HD_UPDATE},
    [EPISODES] = {.name = "episodes", .type = "scalars", .mode = HD_UPDATE},
    [ROLLOUT] = {.name = "rollout", .type = "rollout", .mode = HD_WRITE},
    {0},
};

struct args {
    int64_t n_sample, scratch;
    double gamma;
    enum hd_nstep_tail tail;
    struct hd_epsilon epsilon;
};

static int declare(const struct hd_setup *setup)
{
    return hd_episodes_declare(setup, setup->specs[EPISODES]);
}

static int prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_config *config = setup->config;
    const struct hd_spec *envs = setup->specs[ENVS];
    HD_TRY(hd_envs_check_role(envs, setup, false));
    if (envs->leaves > 1)
        return hd_diag_error(setup->diag, setup->mark,
                             "%s steps all envs together: policy.collect.groups must be 1",
                             setup->verb);
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    HD_TRY(hd_norm_state_check(setup, setup->specs[POLICY], HD_NO_NORM_STATE));
    HD_TRY(
        hd_play_prepare(hd_envs_shape(envs), hd_params_net(setup->specs[POLICY]), &args->scratch));
    args->n_sample = hd_config_int(config, "policy.collect.n_sample");
    args->gamma = hd_config_real(config, "policy.discount_factor");
    args->tail = strcmp(hd_config_text(config, "policy.nstep_tail"), "corrected") == 0
                     ? HD_NSTEP_CORRECTED
                     : HD_NSTEP_PARITY;
    args->epsilon = (struct hd_epsilon){
        .linear = strcmp(hd_config_text(config, "policy.other.eps.type"), "linear") == 0,
        .start = hd_config_real(config, "policy.other.eps.start"),
        .end = hd_config_real(config, "policy.other.eps.end"),
        .decay = hd_config_real(config, "policy.other.eps.decay"),
    };
    return HD_OK;
}

static int64_t scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

/* One collect under way. */
struct collect {
    struct hd_context *context;
    const struct hd_view *views;
    const struct args *args;
    const struct hd_envs_shape *shape;
    const struct hd_net *net;
    double epsilon;
    struct hd_envs envs;
    struct hd_play play;
    struct hd_rollout rollout;
    int64_t nstep;
    int64_t forwards, made, ended;
};

/* Room for the next frame of the rollout, which env `env` shows. */
static void *next_frame(struct collect *c, int64_t env)
{
    int64_t i = (*c->rollout.n_frames)++;
    c->rollout.env[i] = (int32_t)env;
    return c->rollout.frames + i * c->shape->obs.frame_bytes;
}

static int start(struct collect *c, int64_t env)
{
    const struct hd_context *context = c->context;
    uint64_t seed = hd_envs_seed(context->seed, context->shard, env, c->envs.episode[env]);
    return hd_play_start(c->shape, &c->envs, env, seed, next_frame(c, env), c->context);
}

/* Empties the rollout and starts the envs that never were. */
static int begin(struct collect *c)
{
    const struct hd_rollout_shape *shape = hd_rollout_shape(c->views[ROLLOUT].spec);
    hd_rollout_clear(shape, c->views[ROLLOUT].data);
    for (int64_t env = 0; env < shape->envs; env++) {
        c->rollout.first[env] = c->envs.shown[env];
        if (c->envs.shown[env] == 0)
            HD_TRY(start(c, env));
    }
    return HD_OK;
}

static void choose_actions(const struct collect *c)
{
    const int64_t n = c->shape->envs;
    const uint32_t coin = (uint32_t)(c->forwards * (n + 1));
    if (hd_rng_uniform(&c->context->rng, coin) > c->epsilon) {
        hd_play_greedy(&c->play, c->shape, &c->envs, c->net, c->views[POLICY].data, NULL);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        c->play.action[i] = (int32_t)hd_rng_below(&c->context->rng, coin + 1 + (uint32_t)i,
                                                  c->shape->frame.actions);
}

/* The env's step joins its chunk; returns the chunk as it stands. */
static struct hd_chunk append_step(struct collect *c, int64_t env)
{
    const int64_t first = env * c->shape->chunk, step = c->envs.pending[env]++;
    c->envs.action[first + step] = c->play.action[env];
    c->envs.reward[first + step] = c->play.outcome.reward[env];
    return (struct hd_chunk){
        .length = step + 1,
        .frame = c->envs.shown[env] - 1 - (step + 1),
        .age = c->envs.episode_steps[env] - (step + 1),
        .env = (int32_t)env,
        .action = c->envs.action + first,
        .reward = c->envs.reward + first,
        .done = c->play.outcome.done[env],
    };
}

/* Turns a finished chunk into samples, as far as there is room. */
static void hand_on(struct collect *c, const struct hd_chunk *chunk)
{
    const int64_t room = c->args->n_sample - c->made;
    if (room > 0)
        hd_nstep(chunk, c->args->gamma, c->args->tail, c->nstep,
                 chunk->length < room ? chunk->length : room,
                 hd_transition_at(c->rollout.transitions, c->nstep, c->made));
    c->made += chunk->length;
    c->envs.pending[chunk->env] = 0;
}

static int end_episode(struct collect *c, int64_t env)
{
    hd_episodes_push(&c->views[EPISODES], c->envs.episode_return[env],
                     (double)c->envs.episode_steps[env]);
    c->envs.episode[env]++;
    c->ended++;
    return start(c, env);
}

/* One step of all envs, which show their frames where the rollout keeps them. */
static int step(struct collect *c)
{
    choose_actions(c);
    c->play.outcome.obs = next_frame(c, 0);
    for (int64_t env = 1; env < c->shape->envs; env++)
        next_frame(c, env);
    HD_TRY(hd_play_step(&c->play, c->shape, &c->envs, c->context));
    for (int64_t env = 0; env < c->shape->envs; env++) {
        struct hd_chunk chunk = append_step(c, env);
        if (chunk.done || chunk.length == c->shape->chunk)
            hand_on(c, &chunk);
        if (chunk.done)
            HD_TRY(end_episode(c, env));
    }
    c->forwards++;
    return HD_OK;
}

static int body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    const struct hd_counts *totals = views[TOTALS].data;
    const struct hd_rollout_shape *rollout = hd_rollout_shape(views[ROLLOUT].spec);
    struct collect c = {
        .context = context,
        .views = views,
        .args = args,
        .shape = hd_envs_shape(views[ENVS].spec),
        .net = hd_params_net(views[POLICY].spec),
        .epsilon = hd_epsilon_at(&args->epsilon, (double)totals->env_step),
        .envs = hd_envs_at(views[ENVS].spec, views[ENVS].data, 0),
        .rollout = hd_rollout_at(rollout, views[ROLLOUT].data),
        .nstep = rollout->nstep,
    };
    c.play = hd_play_at(c.shape, c.net, context->scratch);
    HD_TRY(begin(&c));
    while (c.made < args->n_sample)
        HD_TRY(step(&c));
    struct hd_counts *counts = views[COUNTS].data;
    counts->env_step += c.forwards * c.shape->envs;
    counts->episode += c.ended;
    counts->sample += c.made;
    return HD_OK;
}

const struct hd_verb hd_verb_collect = {
    .name = "collect",
    .ports = ports,
    .declare = declare,
    .prepare = prepare,
    .scratch = scratch,
    .body = body,
    .help = "plays the envs with exploration until n_sample transitions are made",
};
