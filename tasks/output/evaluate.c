/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `evaluate`: plays greedy episodes from fixed starts, on rank 0 or distributed over the
 * shards. Env i of all E envs plays n / E episodes, the first n mod E envs one more. The return of
 * an episode of several agents (hd_env_spec.agents) is the mean of theirs. The first episodes of an
 * env count; DI-engine counts the last ones, which favours short episodes (docs/di-engine.md 5.3).
 * Episode k starts from `seed + k`, as those of `runner eval` do; with `policy.eval.seeds: env`
 * those of env i start from `seed + i`, as in DI-engine. The result of a shard holds the returns of
 * its own envs, and `sum` makes one result of those of all shards.
 *
 * An item is one env, so that any worker may play it, and an env that has played its episodes costs
 * nothing. One call plays one step, so that as a background task it lets others pass. Envs that a
 * GPU can step are played there together (tasks/collect/evaluate_on_gpu.h). */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/collect/evaluate_on_gpu.h"
#include "tasks/collect/stepper.h"
#include "tasks/output/eval_seeds.h"
#include "tasks/types/base/policy_net.h"
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
    [POLICY] = {"policy", "params", .mode = HD_READ, .scope = HD_SCOPE_ALL},
    [TOTALS] = {"totals", "env_counters", .mode = HD_READ, .optional = true,
                .scope = HD_SCOPE_FINISH},
    [ENVS] = {"envs", "envs", .mode = HD_UPDATE, .scope = HD_SCOPE_ITEM},
    [BEST] = {"best", "params", .mode = HD_UPDATE, .optional = true, .scope = HD_SCOPE_FINISH},
    [RESULT] = {"result", "eval_result", .mode = HD_WRITE, .scope = HD_SCOPE_FINISH},
    [NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true, .scope = HD_SCOPE_ALL},
    [BEST_NORM] = {"best_norm", "moments", .mode = HD_UPDATE, .optional = true,
                   .scope = HD_SCOPE_FINISH},
    [BATCH_NORM_STATS] = {"batch_norm_stats", "batch_norm_stats", .mode = HD_READ, .optional = true,
                          .scope = HD_SCOPE_ALL},
    [BEST_BATCH_NORM_STATS] = {"best_batch_norm_stats", "batch_norm_stats", .mode = HD_UPDATE,
                               .optional = true, .scope = HD_SCOPE_FINISH},
    {0},
};

struct args {
    const struct hd_envs_shape *shape;
    const struct hd_net *net;
    struct hd_eval_seeds seeds;
    int64_t scratch, max_steps;
    bool keeps_best;
};

static int evaluate_declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[NORM]));
    return hd_moments_declare_obs(setup, setup->specs[BEST_NORM]);
}

static const struct hd_field keys[] = {
    HD_FIELD(struct args, max_steps, "env.max_evaluator_step"),
    {0},
};

static int evaluate_prepare(const struct hd_setup *setup, void **args_p)
{
    HD_TRY(hd_envs_check_role(setup->specs[ENVS], setup, true));
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->shape = hd_envs_get_shape(setup->specs[ENVS]);
    args->net = hd_params_get_net(setup->specs[POLICY]);
    args->keeps_best = setup->specs[BEST] != NULL;
    hd_config_read(setup->config, keys, args);
    args->seeds = hd_eval_seeds_read(setup->config);
    HD_TRY(hd_policy_net_check(setup, args->net));
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[POLICY], BATCH_NORM_STATS));
    return hd_stepper_prepare(args->shape, args->net, &args->scratch);
}

static int64_t evaluate_scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

/* The work memory of an item holds what its env has played so far. */
static int64_t get_played_bytes(const struct args *args)
{
    const int64_t most = (args->seeds.episodes + args->shape->total - 1) / args->shape->total;
    return (int64_t)sizeof(struct hd_played) + most * (int64_t)sizeof(double);
}

static void evaluate_get_subtasks(const void *memory, struct hd_subtasks *subtasks_p)
{
    const struct args *args = memory;
    *subtasks_p = (struct hd_subtasks){.items = args->shape->groups,
                                       .stages = 1,
                                       .work_bytes = get_played_bytes(args),
                                       .finish_last = true,
                                       .waits = hd_stepper_waits(args->shape)};
}

/* Returns which env of all a group of a shard plays. */
static int64_t find_env(const struct args *args, int64_t shard, int64_t group)
{
    return hd_envs_get_first(args->shape, shard, group) / args->shape->envs;
}

/* Says what env `env` of all plays. */
static void begin_played(const struct args *args, const struct hd_context *context, int64_t env,
                         struct hd_played *played)
{
    const int64_t first = hd_eval_seeds_get_first(&args->seeds, env);
    *played = (struct hd_played){
        .seed = hd_eval_seeds_get(&args->seeds, context->seed, env, first),
        .seed_gap = args->seeds.of_episodes,
        .episodes = hd_eval_seeds_get_first(&args->seeds, env + 1) - first,
    };
}

/* An env in play, or all agents of a parallel env. One call leaves everything for the next in its
 * group and its work memory. */
struct player {
    const struct args *args;
    struct hd_context *context;
    const struct hd_view *views;
    struct hd_envs envs;
    struct hd_stepper stepper;
    struct hd_played *played;
};

static int start(struct player *p)
{
    for (int64_t i = 0; i < p->args->shape->envs; i++)
        p->envs.episode[i] = p->played->ended;
    return hd_stepper_start_episode(&p->stepper, p->args->shape, &p->envs,
                                    hd_played_get_seed(p->played), p->context);
}

static int begin(struct player *p)
{
    const int64_t env = find_env(p->args, p->context->shard, p->context->item);
    begin_played(p->args, p->context, env, p->played);
    memset(p->envs.shown, 0, (size_t)p->args->shape->envs * sizeof *p->envs.shown);
    return start(p);
}

static void choose_action(const struct player *p)
{
    struct hd_obs_norm norm;
    hd_stepper_choose_greedy(&p->stepper, p->args->shape, &p->envs, p->args->net,
                             p->views[POLICY].data,
                             hd_moments_get_obs_norm(&p->views[NORM], &norm));
}

/* Ends a step, and starts the next episode after the last of one. */
static int end_step(struct player *p)
{
    const struct hd_env_outcome *outcome = &p->stepper.outcome;
    HD_TRY(hd_stepper_end_step(&p->stepper, p->args->shape, &p->envs, p->context));
    const bool ended =
        hd_played_count(p->played, hd_stepper_compute_mean_reward(&p->stepper, p->args->shape),
                        *outcome->done, p->args->max_steps);
    return ended ? start(p) : HD_OK;
}

static struct hd_evaluate_on_gpu make_evaluate_on_gpu(const struct args *args)
{
    return (struct hd_evaluate_on_gpu){.net = args->net,
                                       .envs = args->shape,
                                       .max_steps = args->max_steps,
                                       .played_bytes = get_played_bytes(args)};
}

/* Says what the GPU plays next. */
static int prepare_for_gpu(const struct hd_context *context, const struct hd_view *envs,
                           const struct args *args)
{
    const struct hd_evaluate_on_gpu evaluate = make_evaluate_on_gpu(args);
    const struct hd_evaluate_header header = hd_evaluate_get_header(&evaluate, context->header);
    for (int64_t i = 0; i < args->shape->groups; i++) {
        const int64_t env = find_env(args, context->shard, i);
        struct hd_played *played = (struct hd_played *)(header.played + i * evaluate.played_bytes);
        begin_played(args, context, env, played);
        if (*hd_envs_get(envs->spec, envs->data, i).count == 0)
            played->episodes = 0;
    }
    hd_envs_init_games(args->shape, args->shape->groups, header.games);
    return HD_OK;
}

static int evaluate_body(struct hd_context *context, const struct hd_view *views,
                         const void *memory)
{
    const struct args *args = memory;
    if (context->gpu)
        return prepare_for_gpu(context, &views[ENVS], args);
    struct player p = {
        .args = args,
        .context = context,
        .views = views,
        .envs = hd_envs_get(views[ENVS].spec, views[ENVS].data, context->item),
        .stepper = hd_stepper_get(args->shape, args->net, context->scratch),
        .played = context->work,
    };
    if (*p.envs.count == 0)
        return HD_OK;
    p.stepper.running = hd_batch_norm_stats_get_running(views[BATCH_NORM_STATS].data);
    if (!context->again)
        HD_TRY(begin(&p));
    else if (hd_stepper_waits(args->shape))
        HD_TRY(end_step(&p));
    if (hd_played_is_complete(p.played))
        return HD_OK;
    choose_action(&p);
    HD_TRY(hd_stepper_begin_step(&p.stepper, args->shape, &p.envs, context));
    HD_TRY(end_step(&p));
    return HD_AGAIN;
}

/* -- The result -------------------------------------------------------------------------------- */

static void begin_result(const struct args *args, const struct hd_context *context,
                         const struct hd_view *views)
{
    struct hd_eval_result *result = views[RESULT].data;
    const struct hd_env_counters *totals = views[TOTALS].data;
    memset(result, 0, (size_t)views[RESULT].spec->bytes);
    result->episodes = args->seeds.episodes;
    result->env_step = totals ? totals->env_step : 0;
    result->train_iter = context->update;
}

static const struct hd_played *get_played(const struct args *args, const struct hd_context *context,
                                          int64_t group)
{
    const struct hd_evaluate_on_gpu evaluate = make_evaluate_on_gpu(args);
    if (!context->gpu)
        return context->work_buffers[group];
    return (const void *)(hd_evaluate_get_header(&evaluate, context->headers[0]).played +
                          group * evaluate.played_bytes);
}

/* Adds what the env of a group has played to the result, and returns how many episodes were cut. */
static int64_t add_played(const struct args *args, const struct hd_context *context, int64_t group,
                          struct hd_eval_result *result)
{
    const struct hd_played *played = get_played(args, context, group);
    const int64_t first =
        hd_eval_seeds_get_first(&args->seeds, find_env(args, context->shard, group));
    memcpy(result->returns + first, played->returns,
           (size_t)played->episodes * sizeof *played->returns);
    result->steps += played->steps;
    return played->cut;
}

static int copy_if_present(const struct hd_view *views, int from, int to)
{
    if (!views[from].data || !views[to].data)
        return HD_OK;
    return hd_value_snapshot(views[to].spec, views[to].data, views[from].data);
}

/* Completes the result of all envs and keeps a policy that is the best so far. */
static int keep_if_best(const struct hd_view *views, const struct hd_envs *envs)
{
    struct hd_eval_result *result = views[RESULT].data;
    hd_eval_result_summarise(result);
    if (!views[BEST].data || !hd_eval_result_is_better(result->mean, result->train_iter,
                                                       *envs->best_mean, *envs->best_update))
        return HD_OK;
    *envs->best_mean = result->mean;
    *envs->best_update = result->train_iter;
    HD_TRY(copy_if_present(views, NORM, BEST_NORM));
    HD_TRY(copy_if_present(views, BATCH_NORM_STATS, BEST_BATCH_NORM_STATS));
    return copy_if_present(views, POLICY, BEST);
}

static int evaluate_finish(struct hd_context *context, const struct hd_view *views,
                           const void *memory)
{
    const struct args *args = memory;
    int64_t cut = 0;
    begin_result(args, context, views);
    for (int64_t group = 0; group < args->shape->groups; group++)
        if (*hd_envs_get(views[ENVS].spec, views[ENVS].data, group).count > 0)
            cut += add_played(args, context, group, views[RESULT].data);
    if (cut > 0)
        hd_log(HD_LOG_WARN,
               "evaluate: %lld of %lld episodes did not end within env.max_evaluator_step %lld "
               "steps; their returns until then count (update %lld)",
               (long long)cut, (long long)args->seeds.episodes, (long long)args->max_steps,
               (long long)context->update);
    const struct hd_envs first = hd_envs_get(views[ENVS].spec, views[ENVS].data, 0);
    return args->shape->instances == 1 ? keep_if_best(views, &first) : HD_OK;
}

#if HD_CUDA
/* -- On a GPU ---------------------------------------------------------------------------------- */

static bool evaluate_supports_gpu(const void *memory)
{
    const struct args *args = memory;
    return args->shape->env->gpu && args->shape->outputs->argmax;
}

static bool stage_on_gpu(const void *args, int stage)
{
    (void)args;
    return stage != HD_EVALUATE_PREPARE;
}

/* The host keeps the best policy. */
static bool touches(const void *args, int port, bool gpu)
{
    if (port != POLICY && port != NORM)
        return !gpu;
    return gpu || ((const struct args *)args)->keeps_best;
}

static void get_subtasks_on_gpu(const void *args, struct hd_subtasks *subtasks_p)
{
    const struct hd_evaluate_on_gpu evaluate = make_evaluate_on_gpu(args);
    *subtasks_p = (struct hd_subtasks){.items = 1,
                                       .stages = HD_EVALUATE_STAGES,
                                       .work_bytes = hd_evaluate_get_work_bytes(&evaluate),
                                       .header_bytes = hd_evaluate_get_header_bytes(&evaluate),
                                       .finish_last = true};
}

static int64_t scratch_on_gpu(const void *args)
{
    const struct hd_evaluate_on_gpu evaluate = make_evaluate_on_gpu(args);
    return hd_evaluate_get_scratch_bytes(&evaluate);
}

static int evaluate_ready_on_gpu(const void *memory)
{
    const struct args *args = memory;
    return hd_net_prepare_cuda(args->net, args->shape->groups, 0);
}

static int evaluate_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                const void *args)
{
    const struct hd_evaluate_on_gpu evaluate = make_evaluate_on_gpu(args);
    return hd_evaluate_on_gpu(&evaluate, &views[POLICY], &views[NORM], context);
}

static bool has_more(const struct hd_context *context, const void *args)
{
    const struct hd_evaluate_on_gpu evaluate = make_evaluate_on_gpu(args);
    const char *played = hd_evaluate_get_header(&evaluate, context->header).played;
    for (int64_t i = 0; context->stage == HD_EVALUATE_PLAY && i < evaluate.envs->groups; i++)
        if (!hd_played_is_complete((const void *)(played + i * evaluate.played_bytes)))
            return true;
    return false;
}

static const struct hd_gpu_verb on_gpu = {
    .body = evaluate_body_on_gpu,
    .supports = evaluate_supports_gpu,
    .stage = stage_on_gpu,
    .touches = touches,
    .get_subtasks = get_subtasks_on_gpu,
    .scratch = scratch_on_gpu,
    .graph_capturable = true,
    .again = has_more,
    .ready = evaluate_ready_on_gpu,
};
#endif

const struct hd_verb hd_verb_evaluate = {
    .name = "evaluate",
    .stream_id = 0x3ce0c361ca2c5a01,
    .ports = ports,
    .declare = evaluate_declare,
    .prepare = evaluate_prepare,
    .scratch = evaluate_scratch,
    .body = evaluate_body,
    .get_subtasks = evaluate_get_subtasks,
    .finish = evaluate_finish,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "plays greedy episodes from fixed starts and keeps the best policy so far",
};
