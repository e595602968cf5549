/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/play/stage.h"

#include "runner/base/signals.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/io/base/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>

/* The values of an evaluation. Its step declares them and is never run: the player plays. A policy
 * that was saved with scales of its observations has a value obs_norm. */
static const char graph_text[] =
    "graph={values: {policy: {type: params}, batch_norm_stats: {type: batch_norm_stats, of: "
    "policy}, %seval_envs: {type: envs, placement: rank0, role: evaluator},"
    " result: {type: eval_result, placement: rank0}, evaluation: {type: eval_result}},"
    " iteration: [evaluate: {every: 1 iteration, reads: [policy, batch_norm_stats%s],"
    " updates: [eval_envs], writes: [result]},"
    " broadcast: {reads: [result], writes: [evaluation]},"
    " stop: {if: iteration >= 0, reason: done}]}";

static int add_sets(struct hd_options *options)
{
    bool normalised;
    if (!options->weights)
        return hd_fail(HD_ERR_INPUT,
                       "missing --weights FILE, such as ckpt/best of a run; or name the run "
                       "directory in place of the config");
    HD_TRY(hd_weights_has_obs_norm(options->weights, &normalised));
    HD_TRY(hd_options_add_set(options,
                              hd_format(graph_text, normalised ? "obs_norm: {type: moments}, " : "",
                                        normalised ? ", obs_norm" : ""),
                              NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("strategy={}"), NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("policy.eval.video_every=0"), NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("env.evaluator_env_num=1"), NULL));
    if (options->episodes == 0)
        return HD_OK;
    return hd_options_add_set(
        options, hd_format("env.n_evaluator_episode=%" PRId64, options->episodes), "--episodes");
}

/* Says which weights of a run directory are taken, and warns if much was learned after them. */
static int explain_weights(const char *dir, const struct hd_options *options,
                           const struct hd_settings *settings)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_map(options->weights, &file)); /* they were compared when loaded */
    const char *train_iter = hd_safetensors_get_metadata(file, "train_iter");
    const int64_t update = train_iter ? atoll(train_iter) : -1, last = hd_run_dir_find_last(dir);
    hd_safetensors_close(file);
    if (update < 0)
        return HD_OK;
    hd_log(HD_LOG_INFO, "weights of update %" PRId64 ": %s", update, options->weights);
    if (last > update + settings->eval_freq)
        hd_log(HD_LOG_WARN,
               "the run has weights of update %" PRId64 " too, %s/ckpt/iteration_%" PRId64
               "/policy.safetensors: --weights FILE plays these",
               last, dir, last);
    return HD_OK;
}

int hd_stage_open(struct hd_options *options, struct hd_stage *stage_p)
{
    const char *dir = options->config;
    *stage_p = (struct hd_stage){0};
    HD_TRY(hd_inference_find(options, &stage_p->inference));
    HD_TRY(add_sets(options));
    stat(options->weights, &stage_p->file);
    HD_TRY(hd_inference_open(options, &hd_interrupted, &stage_p->inference));
    const struct hd_graph *graph = stage_p->inference.run_spec.graph;
    const struct hd_settings *settings = &stage_p->inference.run_spec.settings;
    const int envs = hd_graph_find_value(graph, "eval_envs");
    if (stage_p->inference.weights_path)
        HD_TRY(explain_weights(dir, options, settings));
    stage_p->seed = graph->seed;
    stage_p->episodes = settings->eval_episodes;
    return hd_player_create(&stage_p->inference.weights, &graph->values[envs].spec,
                            hd_executor_get_writable(stage_p->inference.executor, envs, 0),
                            settings->eval_max_step, &stage_p->player);
}

void hd_stage_close(struct hd_stage *stage)
{
    hd_player_destroy(stage->player);
    hd_inference_close(&stage->inference);
}
