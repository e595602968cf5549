/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/play/inference.h"

#include "graph/plan/plan.h"
#include "runner/base/origins.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/machine/machine.h"
#include "tasks/types/base/policy_file.h"

#include <unistd.h>

struct hd_weights hd_weights_find(const struct hd_graph *graph, struct hd_executor *executor)
{
    const int policy = hd_graph_find_value(graph, "policy"),
              norm = hd_graph_find_value(graph, "obs_norm"),
              stats = hd_graph_find_value(graph, "batch_norm_stats");
    struct hd_weights weights = {.params = &graph->values[policy].spec,
                                 .data = hd_executor_get_writable(executor, policy, 0)};
    if (norm != HD_NO_VALUE) {
        weights.obs_norm = &graph->values[norm].spec;
        weights.obs_norm_data = hd_executor_get_writable(executor, norm, 0);
    }
    if (stats != HD_NO_VALUE) {
        weights.batch_norm_stats = &graph->values[stats].spec;
        weights.batch_norm_stats_data = hd_executor_get_writable(executor, stats, 0);
    }
    return weights;
}

int hd_inference_find(struct hd_options *options, struct hd_inference *inference_p)
{
    *inference_p = (struct hd_inference){0};
    if (access(options->config, F_OK) != 0)
        return hd_fail(HD_ERR_INPUT, "%s: there is neither a run directory nor a file of this name",
                       options->config);
    if (!options->weights && hd_policy_file_is_named(options->config))
        options->weights = options->config;
    if (!hd_folder_exists(options->config))
        return HD_OK;
    HD_TRY(hd_run_dir_find_policy(options->config, &inference_p->config_path,
                                  options->weights ? NULL : &inference_p->weights_path));
    options->config = inference_p->config_path;
    if (inference_p->weights_path)
        options->weights = inference_p->weights_path;
    return HD_OK;
}

int hd_inference_open(const struct hd_options *options, const atomic_int *interrupted,
                      struct hd_inference *inference_p)
{
    const struct hd_session_options session_options = {
        .sequential = true, .workers = 1, .ranks = 1, .interrupted = interrupted};
    const struct hd_executor_options executor_options = {.window = 1};
    HD_TRY(hd_run_spec_load(options, 1, &inference_p->run_spec));
    HD_TRY(hd_plan_create(inference_p->run_spec.graph, 0, 1, NULL, 0, &inference_p->plan));
    HD_TRY(hd_plan_check_memory(inference_p->plan, 1, hd_memory_count_available()));
    HD_TRY(hd_session_create(&session_options, &inference_p->session));
    HD_TRY(hd_session_reserve(inference_p->session, hd_plan_get_scratch_bytes(inference_p->plan)));
    HD_TRY(hd_executor_create(inference_p->plan, inference_p->session, &executor_options,
                              &inference_p->executor));
    inference_p->weights = hd_weights_find(inference_p->run_spec.graph, inference_p->executor);
    inference_p->weights.strip_prefix = options->strip_prefix;
    HD_TRY(hd_weights_load(&inference_p->weights, options->weights));
    hd_origins_compare_weights(&inference_p->run_spec, options->weights);
    return HD_OK;
}

void hd_inference_close(struct hd_inference *inference)
{
    hd_executor_destroy(inference->executor);
    hd_session_destroy(inference->session);
    hd_plan_destroy(inference->plan);
    hd_run_spec_release(&inference->run_spec);
    hd_free(inference->config_path);
    hd_free(inference->weights_path);
}
