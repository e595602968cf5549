/* SPDX-License-Identifier: Apache-2.0 */
/* runner eval: plays episodes with given weights, or prints the net's outputs for observations. */
#include "graph/runner/commands.h"
#include "graph/runner/inference.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>

/* The evaluation of a training graph, alone. A policy that was saved with scales of its
 * observations has a value obs_norm. */
static const char graph_text[] =
    "graph={values: {policy: {type: params}, batch_norm_stats: {type: batch_norm_stats, of: "
    "policy}, %seval_envs: {type: envs, placement: rank0, role: evaluator},"
    " best: {type: params, placement: rank0, init: policy},"
    " result: {type: eval_result, placement: rank0}, evaluation: {type: eval_result}},"
    " iteration: [evaluate: {seeds: episode, every: 1 iteration, first: 0, reads: [policy, "
    "batch_norm_stats%s],"
    " updates: [eval_envs, best], writes: [result]},"
    " broadcast: {reads: [result], writes: [evaluation]},"
    " stop: {if: iteration >= 0, reason: done}]}";

enum { N_SHOWN = 4 };
static const char *const shown[N_SHOWN] = {"mean", "std", "max", "min"};

static double get_field(const struct hd_spec *spec, const void *data, const char *name)
{
    return spec->type->field(spec, data, hd_value_find_field(spec, name));
}

static void print_text(const struct hd_spec *spec, const void *data, uint64_t seed)
{
    int64_t n;
    const double *returns = hd_eval_result_get_returns(data, &n);
    for (int i = 0; i < N_SHOWN; i++)
        printf("%s %.9g\n", shown[i], get_field(spec, data, shown[i]));
    printf("seeds");
    for (int64_t i = 0; i < n; i++)
        printf(" %" PRIu64, seed + (uint64_t)i);
    printf("\nreturns");
    for (int64_t i = 0; i < n; i++)
        printf(" %.9g", returns[i]);
    printf("\n");
}

static void print_json(const struct hd_spec *spec, const void *data, uint64_t seed)
{
    int64_t n;
    const double *returns = hd_eval_result_get_returns(data, &n);
    printf("{");
    for (int i = 0; i < N_SHOWN; i++)
        printf("\"%s\": %.17g, ", shown[i], get_field(spec, data, shown[i]));
    printf("\"episodes\": [");
    for (int64_t i = 0; i < n; i++)
        printf("%s{\"seed\": %" PRIu64 ", \"return\": %.17g}", i ? ", " : "", seed + (uint64_t)i,
               returns[i]);
    printf("]}\n");
}

static void print_eval_result(struct hd_executor *executor, const struct hd_graph *graph,
                              bool as_json)
{
    int value = hd_graph_find_value(graph, "evaluation");
    const struct hd_spec *spec = &graph->values[value].spec;
    (as_json ? print_json : print_text)(spec, hd_executor_get_data(executor, value, 0),
                                        graph->seed);
}

static int play(struct hd_executor *executor, const struct hd_graph *graph, bool as_json)
{
    const char *reason;
    HD_TRY(hd_executor_run(executor, &reason));
    print_eval_result(executor, graph, as_json);
    return HD_OK;
}

static int add_sets(struct hd_options *options)
{
    bool normalised;
    if (!options->weights)
        return hd_fail(HD_ERR_INPUT, "missing --weights FILE, such as ckpt/best of a run");
    HD_TRY(hd_weights_has_obs_norm(options->weights, &normalised));
    HD_TRY(hd_options_add_set(options,
                              hd_format(graph_text, normalised ? "obs_norm: {type: moments}, " : "",
                                        normalised ? ", obs_norm" : ""),
                              NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("strategy={}"), NULL));
    if (options->episodes == 0)
        return HD_OK;
    return hd_options_add_set(
        options, hd_format("env.n_evaluator_episode=%" PRId64, options->episodes), "--episodes");
}

int hd_command_eval(struct hd_options *options)
{
    struct hd_inference inference;
    int status = add_sets(options);
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    status = hd_inference_open(options, NULL, &inference);
    if (status == HD_OK)
        status = options->obs
                     ? hd_weights_print_outputs(&inference.weights, options->obs, stdout)
                     : play(inference.executor, inference.run_spec.graph, options->as_json);
    hd_inference_close(&inference);
    return hd_status_get_exit_code(status);
}
