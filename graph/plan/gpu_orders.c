/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the values that may stay in the order in which a GPU computes them: only GPUs touch them,
 * by verbs that accept this order, and no checkpoint has them. Sums of several partials and buckets
 * that GPUs share out are ranges of the flat array, so these are in its order. */
#include "graph/plan/plan_internal.h"

static bool is_possible(const struct hd_plan *plan, int i)
{
    const struct hd_plan_value *value = &plan->values[i];
    const struct hd_spec *spec = &plan->graph->values[i].spec;
    return spec->placement == HD_SHARD && spec->partials == 1 && value->homes > 1 &&
           value->residence == HD_ON_GPUS && value->transient && value->lag == 0 &&
           value->background.buffers == 0 && value->shared == HD_NOT_SHARED &&
           value->storage != HD_STORE_NOTHING;
}

static bool is_accepted(const struct hd_op *op, int value)
{
    for (int i = 0; i < op->step->n_refs; i++)
        if (op->step->refs[i].value == value &&
            (op->step->verb->kind != HD_VERB_TASK || !hd_step_get_port(op->step, i)->gpu_order ||
             hd_op_touches(op, i, false)))
            return false;
    return true;
}

/* Returns whether all steps accept the value, which some see by another name. */
static bool is_accepted_by_all(const struct hd_plan *plan, int value)
{
    for (int at = 0; at < plan->n_ops; at++) {
        const struct hd_op *op = &plan->ops[at];
        if (op->kind != HD_OP_STEP || op->lowering == HD_LOWERING_FUSED)
            continue;
        for (int i = 0; i < plan->graph->n_values; i++)
            if ((i == value || plan->values[i].alias == value) && !is_accepted(op, i))
                return false;
    }
    return true;
}

void hd_plan_find_gpu_orders(struct hd_plan *plan)
{
    for (int i = 0; i < plan->graph->n_values; i++) {
        struct hd_spec *spec = &plan->graph->values[i].spec;
        if (spec->type->set_gpu_order)
            spec->type->set_gpu_order(spec, is_possible(plan, i) && is_accepted_by_all(plan, i));
    }
}
