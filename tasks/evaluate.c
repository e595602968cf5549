/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `evaluate`: greedy episodes from fixed starts, on rank 0. Env i plays n / E episodes, the
 * first n mod E envs one more, and its first episodes count; DI-engine keeps an env's last ones,
 * which favours short episodes (spec 5.3). Every reset of env i is seeded with seed + i. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/play.h"
#include "tasks/types/counts.h"
#include "tasks/types/params.h"
#include "tasks/types/verdict.h"

#include <math.h>
#include <string.h>

enum { POLICY, TOTALS, ENVS, BEST, RESULT };

static const struct hd_port ports[] = {
    [POLICY] = {.name = "policy", .type = "params", .mode = HD_READ},
    [TOTALS] = {.name = "totals", .type = "counts", .mode = HD_READ, .optional = true},
    [ENVS] = {.name = "envs", .type = "envs", .mode = HD_UPDATE},
    [BEST] = {.name = "best", .type = "params", .mode = HD_UPDATE},
    [RESULT] = {.name = "result", .type = "verdict", .mode = HD_WRITE},
    {0},
};

struct args {
    int64_t episodes, scratch;
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    HD_TRY(hd_envs_check_role(setup->specs[ENVS], setup, true));
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    args->episodes = hd_config_int(setup->config, "env.n_evaluator_episode");
    args->scratch =
        hd_play_bytes(hd_envs_shape(setup->specs[ENVS]), hd_params_net(setup->specs[POLICY]));
    *args_p = args;
    return HD_OK;
}

static int64_t scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

/* Number of the first episode of env `env`: those of env i are [first(i), first(i + 1)). */
static int64_t first_episode(int64_t env, int64_t envs, int64_t episodes)
{
    int64_t more = episodes % envs;
    return env * (episodes / envs) + (env < more ? env : more);
}

/* Plays until every env has its episodes. */
static int play_episodes(const struct hd_context *context, const struct hd_view *views,
                         const struct hd_envs_shape *shape, struct hd_envs *envs,
                         struct hd_verdict *verdict, char message[HD_ENV_MESSAGE])
{
    const struct hd_net *net = hd_params_net(views[POLICY].spec);
    const struct hd_play play = hd_play_at(shape, net, context->scratch);
    const int64_t n = shape->envs, obs_size = shape->obs_size;
    for (int64_t i = 0; i < n; i++) {
        envs->episode[i] = first_episode(i, n, verdict->episodes);
        HD_TRY(hd_envs_start(shape, envs, i, context->seed + (uint64_t)i, message));
    }
    for (int64_t left = verdict->episodes; left > 0;) {
        hd_play_greedy(&play, shape, envs, net, views[POLICY].data);
        HD_TRY(hd_play_step(&play, shape, envs, message));
        memcpy(envs->obs, play.outcome.obs, (size_t)(n * obs_size) * sizeof(float));
        for (int64_t i = 0; i < n; i++) {
            if (!play.outcome.done[i])
                continue;
            if (envs->episode[i] < first_episode(i + 1, n, verdict->episodes)) {
                verdict->returns[envs->episode[i]++] = envs->episode_return[i];
                verdict->steps += envs->episode_steps[i];
                left--;
            }
            HD_TRY(hd_envs_start(shape, envs, i, context->seed + (uint64_t)i, message));
        }
    }
    return HD_OK;
}

static void summarise(struct hd_verdict *verdict)
{
    const int64_t n = verdict->episodes;
    double sum = 0, squares = 0;
    verdict->max = -INFINITY;
    verdict->min = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        sum += verdict->returns[i];
        verdict->max = fmax(verdict->max, verdict->returns[i]);
        verdict->min = fmin(verdict->min, verdict->returns[i]);
    }
    verdict->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (verdict->returns[i] - verdict->mean) * (verdict->returns[i] - verdict->mean);
    verdict->std = sqrt(squares / (double)n);
}

static int body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    const struct hd_counts *totals = views[TOTALS].data;
    const struct hd_envs_shape *shape = hd_envs_shape(views[ENVS].spec);
    struct hd_envs envs = hd_envs_at(views[ENVS].spec, views[ENVS].data);
    struct hd_verdict *verdict = views[RESULT].data;
    *verdict = (struct hd_verdict){
        .episodes = args->episodes,
        .env_step = totals ? totals->env_step : 0,
        .train_iter = context->update,
    };
    char message[HD_ENV_MESSAGE] = "";
    if (play_episodes(context, views, shape, &envs, verdict, message) != HD_OK)
        return hd_body_fail(context, "%s: %s", shape->env->name, message);
    summarise(verdict);
    if (verdict->mean > *envs.best_mean) {
        *envs.best_mean = verdict->mean;
        return hd_value_snapshot(views[BEST].spec, views[BEST].data, views[POLICY].data);
    }
    return HD_OK;
}

const struct hd_verb hd_verb_evaluate = {
    .name = "evaluate",
    .ports = ports,
    .prepare = prepare,
    .scratch = scratch,
    .body = body,
    .help = "plays greedy episodes from fixed starts and keeps the best policy so far",
};
