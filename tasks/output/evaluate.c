/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `evaluate`: plays greedy episodes from fixed starts, on rank 0 or distributed over the
 * shards. Env i of all E envs plays n / E episodes, the first n mod E envs one more. The first
 * episodes of an env count; DI-engine counts the last ones, which favours short episodes
 * (docs/di-engine.md 5.3). Every reset of env i has the seed `seed + i`; with `seeds: episode`,
 * which `runner eval` has, episode k has the seed `seed + k`, which is the same until an env plays
 * its second episode. The result of a shard holds the returns of its own envs, and `sum` makes one
 * result of those of all shards. One call plays one step of all envs, so that as a background task
 * it lets others pass. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/collect/stepper.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/eval_result.h"
#include "tasks/types/output/moments.h"

#include <string.h>

enum {
    POLICY,
    TOTALS,
    ENVS,
    BEST,
    RESULT,
    NORM,
    BEST_NORM,
    BATCH_NORM_STATS,
    BEST_BATCH_NORM_STATS
};

static const struct hd_port ports[] = {
    [POLICY] = {.name = "policy", .type = "params", .mode = HD_READ},
    [TOTALS] = {.name = "totals", .type = "env_counters", .mode = HD_READ, .optional = true},
    [ENVS] = {.name = "envs", .type = "envs", .mode = HD_UPDATE},
    [BEST] = {.name = "best", .type = "params", .mode = HD_UPDATE, .optional = true},
    [RESULT] = {.name = "result", .type = "eval_result", .mode = HD_WRITE},
    [NORM] = {.name = "obs_norm", .type = "moments", .mode = HD_READ, .optional = true},
    [BEST_NORM] = {.name = "best_norm", .type = "moments", .mode = HD_UPDATE, .optional = true},
    [BATCH_NORM_STATS] = {.name = "batch_norm_stats",
                          .type = "batch_norm_stats",
                          .mode = HD_READ,
                          .optional = true},
    [BEST_BATCH_NORM_STATS] = {.name = "best_batch_norm_stats",
                               .type = "batch_norm_stats",
                               .mode = HD_UPDATE,
                               .optional = true},
    {0},
};

static const struct hd_option options[] = {{"seeds", "env|episode", false}, {0}};

struct args {
    int64_t episodes, scratch;
    bool seed_of_episode;
};

static int declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[NORM]));
    return hd_moments_declare_obs(setup, setup->specs[BEST_NORM]);
}

static int prepare(const struct hd_setup *setup, void **args_p)
{
    HD_TRY(hd_envs_check_role(setup->specs[ENVS], setup, true));
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    const char *seeds = hd_setup_get_option(setup, "seeds");
    args->seed_of_episode = seeds && strcmp(seeds, "episode") == 0;
    args->episodes = hd_config_get_int(setup->config, "env.n_evaluator_episode");
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[POLICY], BATCH_NORM_STATS));
    return hd_stepper_prepare(hd_envs_get_shape(setup->specs[ENVS]),
                              hd_params_get_net(setup->specs[POLICY]), &args->scratch);
}

static int64_t scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

/* Returns the number of the first episode of env `env`. Env i plays episodes [first(i), first(i +
 * 1)). */
static int64_t first_episode(int64_t env, int64_t envs, int64_t episodes)
{
    int64_t more = episodes % envs;
    return env * (episodes / envs) + (env < more ? env : more);
}

/* An evaluation in progress. One call leaves everything for the next in envs and result. */
struct evaluation {
    const struct args *args;
    struct hd_context *context;
    const struct hd_view *views;
    const struct hd_envs_shape *shape;
    int64_t first; /* number of this instance's first env among all */
    struct hd_envs envs;
    struct hd_stepper stepper;
    struct hd_eval_result *result;
};

/* Returns the number after that of the last episode of the instance's env i. */
static int64_t episodes_end(const struct evaluation *e, int64_t i)
{
    return first_episode(e->first + i + 1, e->shape->total, e->result->episodes);
}

static int start(struct evaluation *e, int64_t i)
{
    const int64_t number = e->args->seed_of_episode ? e->envs.episode[i] : e->first + i;
    uint64_t seed = e->context->seed + (uint64_t)number;
    void *frame = (char *)e->stepper.outcome.obs + i * e->shape->obs.frame_bytes;
    return hd_stepper_start_env(e->shape, &e->envs, i, seed, frame, e->context);
}

static int begin(struct evaluation *e)
{
    const struct hd_env_counters *totals = e->views[TOTALS].data;
    memset(e->result, 0, (size_t)e->views[RESULT].spec->bytes);
    e->result->episodes = e->args->episodes;
    e->result->env_step = totals ? totals->env_step : 0;
    e->result->train_iter = e->context->update;
    for (int64_t i = 0; i < *e->envs.count; i++) {
        e->envs.shown[i] = 0;
        e->envs.episode[i] = first_episode(e->first + i, e->shape->total, e->args->episodes);
        HD_TRY(start(e, i));
    }
    return HD_OK;
}

static bool all_played(const struct evaluation *e)
{
    for (int64_t i = 0; i < *e->envs.count; i++)
        if (e->envs.episode[i] < episodes_end(e, i))
            return false;
    return true;
}

/* Steps all envs once, also those that have played their episodes. */
static int step(struct evaluation *e)
{
    const struct hd_net *net = hd_params_get_net(e->views[POLICY].spec);
    struct hd_obs_norm norm;
    hd_stepper_choose_greedy(&e->stepper, e->shape, &e->envs, net, e->views[POLICY].data,
                             hd_moments_get_obs_norm(&e->views[NORM], &norm));
    HD_TRY(hd_stepper_step(&e->stepper, e->shape, &e->envs, e->context));
    for (int64_t i = 0; i < *e->envs.count; i++) {
        if (!e->stepper.outcome.done[i])
            continue;
        if (e->envs.episode[i] < episodes_end(e, i)) {
            e->result->returns[e->envs.episode[i]++] = e->envs.episode_return[i];
            e->result->steps += e->envs.episode_steps[i];
        }
        HD_TRY(start(e, i));
    }
    return HD_OK;
}

static int copy_if_present(const struct hd_view *views, int from, int to)
{
    if (!views[from].data || !views[to].data)
        return HD_OK;
    return hd_value_snapshot(views[to].spec, views[to].data, views[from].data);
}

/* Completes the result of all envs and keeps a policy that is the best so far. */
static int finish_evaluation(struct evaluation *e)
{
    const struct hd_view *best = &e->views[BEST];
    hd_eval_result_summarise(e->result);
    if (!best->data || e->result->mean <= *e->envs.best_mean)
        return HD_OK;
    *e->envs.best_mean = e->result->mean;
    HD_TRY(copy_if_present(e->views, NORM, BEST_NORM));
    HD_TRY(copy_if_present(e->views, BATCH_NORM_STATS, BEST_BATCH_NORM_STATS));
    return copy_if_present(e->views, POLICY, BEST);
}

static int body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    struct evaluation e = {
        .args = memory,
        .context = context,
        .views = views,
        .shape = hd_envs_get_shape(views[ENVS].spec),
        .envs = hd_envs_get(views[ENVS].spec, views[ENVS].data, 0),
        .result = views[RESULT].data,
    };
    e.first = hd_envs_get_first(e.shape, context->shard, 0);
    e.stepper = hd_stepper_get(e.shape, hd_params_get_net(views[POLICY].spec), context->scratch);
    e.stepper.running = hd_batch_norm_stats_get_running(views[BATCH_NORM_STATS].data);
    if (!context->again)
        HD_TRY(begin(&e));
    if (!all_played(&e)) {
        HD_TRY(step(&e));
        return HD_AGAIN;
    }
    return e.shape->instances == 1 ? finish_evaluation(&e) : HD_OK;
}

const struct hd_verb hd_verb_evaluate = {
    .name = "evaluate",
    .stream_id = 0x3ce0c361ca2c5a01,
    .ports = ports,
    .options = options,
    .declare = declare,
    .prepare = prepare,
    .scratch = scratch,
    .body = body,
    .help = "plays greedy episodes from fixed starts and keeps the best policy so far",
};
