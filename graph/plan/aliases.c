/* SPDX-License-Identifier: Apache-2.0 */
/* Finds means of a single term: of the only shard, whose gradient has one partial. On a GPU such a
 * mean would be a copy of all parameters' gradients; readers that divide by its count themselves
 * see the operand instead, a sum. */
#include "graph/plan/plan_internal.h"

static bool is_plain(const struct hd_plan_value *value)
{
    return value->instances == 1 && value->buffers == 1 && value->lag == 0 &&
           value->background.buffers == 0 && value->homes > 1 && value->shared == HD_NOT_SHARED &&
           value->storage == HD_STORE_ALL;
}

static bool are_alike(const struct hd_plan *plan, int from, int to)
{
    const struct hd_spec *a = &plan->graph->values[from].spec, *b = &plan->graph->values[to].spec;
    return a->type == b->type && a->type->flat && a->bytes == b->bytes && a->partials == 1 &&
           b->partials == 1 && a->buckets == b->buckets;
}

/* Returns whether an op that reads the value divides it by its count itself. */
static bool divides(const struct hd_op *op, int value)
{
    for (int i = 0; op->kind == HD_OP_STEP && i < op->step->n_refs; i++)
        if (op->step->refs[i].value == value &&
            (op->step->verb->kind != HD_VERB_TASK || !hd_step_get_port(op->step, i)->divides))
            return false;
    return op->kind == HD_OP_STEP;
}

/* Returns whether the op before the mean is the only other one that names the operand, and writes
 * it, and everything that reads the result follows before the operand is written again. */
static bool is_between(const struct hd_plan *plan, int mean, int from, int to)
{
    const int end = hd_plan_find_body_end(plan, mean);
    for (int at = 0; at < plan->n_ops; at++) {
        if (at == mean)
            continue;
        if (hd_op_names(&plan->ops[at], from) && at != mean - 1)
            return false;
        if (hd_op_names(&plan->ops[at], to) &&
            (at < mean || at >= end || !divides(&plan->ops[at], to) ||
             hd_step_changes(plan->ops[at].step, to)))
            return false;
    }
    const struct hd_op *writer = mean > 0 ? &plan->ops[mean - 1] : NULL;
    return writer && writer->kind == HD_OP_STEP && hd_op_names(writer, from) &&
           !writer->step->when && writer->step->every == 0;
}

static bool is_alias(const struct hd_plan *plan, int at)
{
    const struct hd_op *op = &plan->ops[at];
    if (op->kind != HD_OP_STEP || op->step->verb->kind != HD_VERB_COLLECTIVE || !op->gpu ||
        op->lowering != HD_LOWERING_COLLECTIVE || op->step->when || op->step->every > 0 ||
        op->step->verb->combine != HD_MEAN)
        return false;
    const int from = op->step->refs[0].value, to = op->step->refs[1].value;
    return from < to && is_plain(&plan->values[from]) && is_plain(&plan->values[to]) &&
           are_alike(plan, from, to) && is_between(plan, at, from, to);
}

void hd_plan_find_aliases(struct hd_plan *plan)
{
    for (int i = 0; i < plan->graph->n_values; i++)
        plan->values[i].alias = HD_NO_VALUE;
    const bool alone = plan->graph->shards == 1 && plan->devices == 1; /* and so is the rank */
    for (int at = 0; alone && at < plan->n_ops; at++) {
        if (!is_alias(plan, at))
            continue;
        plan->ops[at].lowering = HD_LOWERING_FUSED;
        plan->values[plan->ops[at].step->refs[1].value].alias = plan->ops[at].step->refs[0].value;
    }
}
