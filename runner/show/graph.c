/* SPDX-License-Identifier: Apache-2.0 */
/* runner graph: the plan of any rank of any number of ranks. */
#include "graph/plan/plan.h"
#include "runner/base/commands.h"
#include "runner/train/base/gpus.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/output/inspect.h"

static void print_nets(const struct hd_run_spec *run_spec, const struct hd_plan *plan)
{
    printf("nets\n");
    hd_inspect_print_parts(run_spec->config, stdout);
    for (int i = 0; i < plan->graph->n_values; i++)
        hd_inspect_print_net(&plan->graph->values[i].spec, stdout);
}

static int print_plan(const struct hd_options *options)
{
    struct hd_run_spec run_spec;
    struct hd_plan *plan;
    if (options->rank >= options->ranks)
        return hd_fail(HD_ERR_INPUT, "--rank %d: with --ranks %d ranks are 0 to %d", options->rank,
                       options->ranks, options->ranks - 1);
    HD_TRY(hd_run_spec_load(options, options->ranks, &run_spec));
    const struct hd_plan_gpus gpus = hd_gpus_plan(&run_spec, options->ranks);
    hd_run_spec_explain(&run_spec, gpus.n > 0);
    int status = hd_plan_create(run_spec.graph, options->rank, options->ranks, &gpus,
                                run_spec.settings.param_check_interval, &plan);
    if (status == HD_OK) {
        hd_plan_assign_channels(plan, run_spec.settings.open_exchanges, true);
        (options->dot ? hd_plan_dump_dot : hd_plan_dump)(plan, stdout);
        if (!options->dot) {
            print_nets(&run_spec, plan);
            hd_plan_dump_memory(plan, stdout);
        }
        hd_plan_destroy(plan);
    }
    hd_run_spec_release(&run_spec);
    return status;
}

int hd_command_graph(struct hd_options *options)
{
    hd_options_refuse_plugins(options);
    return hd_status_get_exit_code(print_plan(options));
}
