/* SPDX-License-Identifier: Apache-2.0 */
/* runner eval: plays episodes with given weights, or prints the net's outputs for observations. */
#include "graph/runner/app.h"
#include "graph/runner/train/weights.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <string.h>

/* The evaluation of a training graph, alone; of a policy that takes observations as they are, or by
 * the scales that it was saved with. */
#define GRAPH(MORE, NORM)                                                                          \
    "graph={values: {policy: {type: params}, batch_norm_stats: {type: batch_norm_stats, of: "      \
    "policy}, " MORE "eval_envs: {type: envs, placement: rank0, role: evaluator},"                 \
    " best: {type: params, placement: rank0, init: policy}, result: {type: eval_result, "          \
    "placement: "                                                                                  \
    "rank0},"                                                                                      \
    " evaluation: {type: eval_result}},"                                                           \
    " iteration: [evaluate: {every: 1 iteration, first: 0, reads: [policy, batch_norm_stats" NORM  \
    "],"                                                                                           \
    " updates: [eval_envs, best], writes: [result]},"                                              \
    " broadcast: {reads: [result], writes: [evaluation]},"                                         \
    " stop: {if: iteration >= 0, reason: done}]}"
static const char graph_without_norm[] = GRAPH("", "");
static const char graph_with_norm[] = GRAPH("obs_norm: {type: moments}, ", ", obs_norm");

static int print_eval_result(struct hd_executor *executor, const struct hd_graph *graph)
{
    int value = hd_graph_find_value(graph, "evaluation");
    const struct hd_spec *spec = &graph->values[value].spec;
    const void *data = hd_executor_get_data(executor, value, 0);
    static const char *const shown[] = {"mean", "std", "max", "min"};
    for (int i = 0; i < (int)(sizeof shown / sizeof *shown); i++)
        printf("%s %.9g\n", shown[i],
               spec->type->field(spec, data, hd_value_find_field(spec, shown[i])));
    int64_t n;
    const double *returns = hd_eval_result_get_returns(data, &n);
    printf("returns");
    for (int64_t i = 0; i < n; i++)
        printf(" %.9g", returns[i]);
    printf("\n");
    return fflush(stdout) == 0 ? HD_OK : hd_fail(HD_ERR_SYSTEM, "cannot write: %m");
}

static int play(struct hd_executor *executor, const struct hd_graph *graph)
{
    const char *reason;
    HD_TRY(hd_executor_run(executor, &reason));
    return print_eval_result(executor, graph);
}

static int evaluate(const struct hd_options *options, const struct hd_run_spec *run_spec,
                    struct hd_session *session, struct hd_plan *plan)
{
    struct hd_executor *executor;
    const struct hd_executor_options executor_options = {.window = 1};
    HD_TRY(hd_session_reserve(session, hd_plan_get_scratch_bytes(plan)));
    HD_TRY(hd_executor_create(plan, session, &executor_options, &executor));
    const struct hd_weights weights = hd_weights_find(run_spec->graph, executor);
    int status = hd_weights_load(&weights, options->weights);
    if (status == HD_OK)
        status = options->obs ? hd_weights_print_outputs(&weights, options->obs, stdout)
                              : play(executor, run_spec->graph);
    hd_executor_destroy(executor);
    return status;
}

static int start(struct hd_options *options)
{
    struct hd_run_spec run_spec;
    struct hd_plan *plan = NULL;
    struct hd_session *session = NULL;
    bool normalised;
    if (!options->weights)
        return hd_fail(HD_ERR_INPUT, "missing --weights FILE, such as ckpt/best of a run");
    HD_TRY(hd_weights_has_obs_norm(options->weights, &normalised));
    options->sets[options->n_sets++] = normalised ? graph_with_norm : graph_without_norm;
    options->sets[options->n_sets++] = "strategy={}";
    if (options->episodes > 0) {
        char *text = hd_format("env.n_evaluator_episode=%" PRId64, options->episodes);
        if (!text)
            return HD_ERR_NOMEM;
        options->owned[options->n_owned++] = text;
        options->sets[options->n_sets++] = text;
    }
    HD_TRY(hd_run_spec_load(options, 1, &run_spec));
    const struct hd_session_options session_options = {
        .sequential = true, .workers = 1, .ranks = 1};
    int status = hd_plan_create(run_spec.graph, 0, 1, NULL, 0, &plan);
    if (status == HD_OK)
        status = hd_session_create(&session_options, &session);
    if (status == HD_OK)
        status = evaluate(options, &run_spec, session, plan);
    hd_session_destroy(session);
    hd_plan_destroy(plan);
    hd_run_spec_release(&run_spec);
    return status;
}

int hd_command_eval(int argc, char **argv)
{
    struct hd_options options;
    int status = hd_options_read("eval", argc, argv, &options);
    if (status == HD_OK) {
        status = start(&options);
        hd_options_release(&options);
    }
    return status > 0 ? 0 : hd_status_get_exit_code(status);
}
