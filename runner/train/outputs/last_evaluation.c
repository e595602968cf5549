/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/outputs/last_evaluation.h"

#include "runner/base/signals.h"
#include "runner/play/inference.h"
#include "runner/train/outputs/fields.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/output/eval_seeds.h"
#include "tasks/output/player.h"
#include "tasks/types/output/eval_result.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_evaluator(const struct hd_spec *spec)
{
    return strcmp(spec->type->name, "envs") == 0 && strcmp(spec->role, "evaluator") == 0;
}

/* Returns the value with the envs that evaluate, or HD_NO_VALUE. */
static int find_evaluator(const struct hd_graph *graph)
{
    for (int i = 0; i < graph->n_values; i++)
        if (is_evaluator(&graph->values[i].spec))
            return i;
    return HD_NO_VALUE;
}

/* Reads what the graph has kept of its evaluations: keep_best a result, evaluate a number. */
static void read_evaluations(const struct hd_train *train, int evaluator,
                             struct hd_last_evaluation *evaluation)
{
    const double best_update = hd_fields_read(train, "best_evaluation", "train_iter"),
                 latest_update = hd_fields_read(train, "evaluation", "train_iter");
    evaluation->latest_mean = hd_fields_read(train, "evaluation", "mean");
    evaluation->latest_update = isnan(latest_update) ? 0 : (int64_t)latest_update;
    evaluation->best_mean = hd_fields_read(train, "best_evaluation", "mean");
    evaluation->best_update = isnan(best_update) ? 0 : (int64_t)best_update;
    if (isnan(evaluation->best_mean) && evaluator != HD_NO_VALUE)
        hd_inspect_best(&train->run_spec.graph->values[evaluator].spec,
                        hd_executor_get_data(train->executor, evaluator, 0), &evaluation->best_mean,
                        &evaluation->best_update);
}

/* A signal may have come before the last evaluation began. */
static bool is_asked_to_end(void)
{
    return hd_interrupted || hd_asked_to_stop;
}

static int play_episode(struct hd_player *player, uint64_t seed, double *return_p)
{
    HD_TRY(hd_player_start(player, seed));
    while (!hd_player_get_episode(player).ended) {
        if (is_asked_to_end())
            return HD_ERR_INTERRUPTED;
        HD_TRY(hd_player_step(player));
    }
    *return_p = hd_player_get_episode(player).episode_return;
    return HD_OK;
}

/* Plays the episodes of `evaluate`. */
static int play_all(struct hd_player *player, uint64_t seed, const struct hd_eval_seeds *seeds,
                    double *returns)
{
    for (int64_t env = 0; env < seeds->envs; env++)
        for (int64_t k = hd_eval_seeds_get_first(seeds, env);
             k < hd_eval_seeds_get_first(seeds, env + 1); k++)
            HD_TRY(play_episode(player, hd_eval_seeds_get(seeds, seed, env, k), &returns[k]));
    return HD_OK;
}

static int play_in(struct hd_train *train, const struct hd_spec *spec, void *envs,
                   struct hd_last_evaluation *evaluation)
{
    const struct hd_graph *graph = train->run_spec.graph;
    const struct hd_settings *settings = &train->run_spec.settings;
    const struct hd_weights weights = hd_weights_find(graph, train->executor);
    struct hd_player *player = NULL;
    const struct hd_eval_seeds seeds = hd_eval_seeds_read(train->run_spec.config);
    evaluation->n = seeds.episodes;
    evaluation->returns = hd_alloc(evaluation->n, sizeof *evaluation->returns);
    int status = evaluation->returns ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_player_create(&weights, spec, envs, settings->eval_max_step, &player);
    if (status == HD_OK)
        status = play_all(player, graph->seed, &seeds, evaluation->returns);
    hd_player_destroy(player);
    return status;
}

/* Plays in envs of its own: where evaluating envs are spread over the shards, rank 0 may have none,
 * but the last shard has one. */
static int play_apart(struct hd_train *train, const struct hd_spec *spec,
                      struct hd_last_evaluation *evaluation)
{
    const int64_t last = train->run_spec.shards - 1;
    const struct hd_setup setup = {.config = train->run_spec.config,
                                   .diag = train->run_spec.diag,
                                   .shards = train->run_spec.shards};
    void *envs = hd_alloc(spec->bytes, 1);
    if (!envs)
        return HD_ERR_NOMEM;
    int status = hd_value_init(spec, &setup, last, envs);
    if (status == HD_OK)
        status = play_in(train, spec, envs, evaluation);
    hd_value_fini(spec, envs);
    hd_free(envs);
    return status;
}

static int play(struct hd_train *train, int evaluator, struct hd_last_evaluation *evaluation)
{
    const struct hd_spec *spec = &train->run_spec.graph->values[evaluator].spec;
    if (spec->placement == HD_SHARD)
        return play_apart(train, spec, evaluation);
    return play_in(train, spec, hd_executor_get_writable(train->executor, evaluator, 0),
                   evaluation);
}

static void summarise(struct hd_last_evaluation *evaluation, int64_t updates)
{
    double sum = 0;
    for (int64_t i = 0; i < evaluation->n; i++)
        sum += evaluation->returns[i];
    evaluation->mean = sum / (double)evaluation->n;
    evaluation->last_is_best = hd_eval_result_is_better(
        evaluation->mean, updates, evaluation->best_mean, evaluation->best_update);
}

static void forget(struct hd_last_evaluation *evaluation)
{
    hd_free(evaluation->returns);
    evaluation->returns = NULL;
    evaluation->n = 0;
}

static bool is_wanted(const struct hd_train *train, const char *reason, int64_t updates,
                      const struct hd_last_evaluation *evaluation)
{
    const bool known = !isnan(evaluation->latest_mean) && evaluation->latest_update == updates;
    return strcmp(reason, "limit") == 0 && updates > 0 && !known && !is_asked_to_end() &&
           train->run_spec.settings.evaluates_at_limit &&
           (train->timing.watch.after < 0 || train->options->evaluate);
}

int hd_last_evaluation_play(struct hd_train *train, const char *reason, int64_t updates,
                            struct hd_last_evaluation *evaluation_p)
{
    const int evaluator = find_evaluator(train->run_spec.graph);
    *evaluation_p = (struct hd_last_evaluation){.mean = NAN};
    read_evaluations(train, evaluator, evaluation_p);
    if (evaluator == HD_NO_VALUE ||
        hd_graph_find_value(train->run_spec.graph, "policy") == HD_NO_VALUE ||
        !is_wanted(train, reason, updates, evaluation_p))
        return HD_OK;
    hd_signals_set_started(0); /* there is nothing left of which a checkpoint could be made */
    hd_log_show_progress("evaluating the last weights");
    const int status = play(train, evaluator, evaluation_p);
    hd_log_show_progress(NULL);
    if (status == HD_OK) {
        summarise(evaluation_p, updates);
        return HD_OK;
    }
    forget(evaluation_p);
    hd_log(HD_LOG_WARN, "the last weights were not evaluated%s",
           status == HD_ERR_INTERRUPTED ? ": a signal came" : "");
    return status == HD_ERR_NOMEM ? status : HD_OK;
}
