/* SPDX-License-Identifier: Apache-2.0 */
/* Submits a mean and the step that uses it as one update. */
#include "runtime/engine/collective/sharded_update.h"

#include "graph/execute/execute_internal.h"

int hd_op_submit_sharded_update(struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_plan *plan = binder->plan;
    const struct hd_step *step = op->step, *mean = op->mean->step;
    struct hd_sharded_update update = {
        .verb = step->verb->name,
        .name = step->label,
        .labels = op->labels,
        .update_slice = step->verb->update_slice,
        .args = step->args,
        .context = hd_binder_make_context(binder, step, -1),
        .operands = &plan->graph->values[mean->refs[0].value].spec,
        .n_in = plan->values[mean->refs[0].value].instances,
        .in = hd_binder_get_replica(binder, op->mean, 0, HD_HOST)->memory,
        .n = step->n_refs,
        .channels = op->channels,
        .group = hd_binder_get_task_group(binder),
    };
    struct hd_bound bound;
    hd_binder_bind(binder, op, 0, 0, HD_HOST, &bound);
    update.views[0].spec = &plan->graph->values[step->refs[0].value].spec;
    for (int i = 1; i < step->n_refs; i++) {
        update.views[i] = bound.views[i];
        update.accesses[i] = bound.accesses[i];
        update.wanted_whole[i] = hd_ref_changes(&step->refs[i]) &&
                                 plan->values[step->refs[i].value].storage == HD_STORE_ALL;
    }
    return hd_submit_sharded_update(binder->session, &update);
}
