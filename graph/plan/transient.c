/* SPDX-License-Identifier: Apache-2.0 */
/* Finds values that are dead between iterations: the first step of an iteration that names them
 * writes them whole, and every reader comes after it. So do the readers of an alias. */
#include "graph/plan/plan_internal.h"

int hd_plan_find_body_end(const struct hd_plan *plan, int at)
{
    for (int i = at - 1; i >= 0; i--)
        if (plan->ops[i].kind == HD_OP_REPEAT && plan->ops[i].end > at)
            return plan->ops[i].end;
    return plan->n_ops;
}

bool hd_op_names(const struct hd_op *op, int value)
{
    if (op->kind == HD_OP_STEP)
        return hd_step_names(op->step, value);
    return op->kind != HD_OP_REPEAT && op->value == value;
}

/* Returns whether the first step that names the value writes it whole, whenever the steps after it
 * are reached. */
static bool is_transient(const struct hd_plan *plan, int value)
{
    int first = 0;
    while (first < plan->n_ops && !hd_op_names(&plan->ops[first], value))
        first++;
    if (first == plan->n_ops || plan->ops[first].kind != HD_OP_STEP)
        return false;
    const struct hd_step *step = plan->ops[first].step;
    if (step->verb->kind != HD_VERB_TASK || step->verb->run_on_change || step->verb->logs ||
        step->when || step->every > 0)
        return false;
    const int end = hd_plan_find_body_end(plan, first);
    for (int at = first; at < plan->n_ops; at++) {
        const struct hd_op *op = &plan->ops[at];
        for (int i = 0; op->kind == HD_OP_STEP && i < op->step->n_refs; i++)
            if (op->step->refs[i].value == value &&
                (at >= end || op->step->refs[i].lag > 0 ||
                 (at == first && op->step->refs[i].mode != HD_WRITE)))
                return false;
        if (op->kind != HD_OP_STEP && hd_op_names(op, value))
            return false;
    }
    return true;
}

void hd_plan_find_transient_values(struct hd_plan *plan)
{
    for (int value = 0; value < plan->graph->n_values; value++)
        plan->values[value].transient =
            plan->values[value].alias != HD_NO_VALUE || is_transient(plan, value);
}

static bool is_named(const struct hd_plan *plan, int value, int begin, int end)
{
    for (int at = begin; at < end; at++)
        for (int i = 0; i < plan->graph->n_values; i++)
            if ((i == value || plan->values[i].alias == value) && hd_op_names(&plan->ops[at], i))
                return true;
    return false;
}

bool hd_plan_can_resume_at(const struct hd_plan *plan, int at)
{
    for (int i = 0; i < at; i++)
        if (plan->ops[i].kind == HD_OP_REPEAT && plan->ops[i].end > at)
            return false;
    for (int i = 0; i < plan->graph->n_values; i++)
        if (plan->values[i].transient && is_named(plan, i, 0, at) &&
            is_named(plan, i, at, plan->n_ops))
            return false;
    return true;
}
