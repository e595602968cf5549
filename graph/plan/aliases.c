/* SPDX-License-Identifier: Apache-2.0 */
/* Finds means of a single term: of the only shard, whose gradient has one partial. On a GPU such a
 * mean would be a copy of all parameters' gradients; instead the readers of the result see
 * the operand, a sum that they divide by its count themselves. */
#include "graph/plan/plan_internal.h"

static bool is_plain(const struct hd_plan *plan, const struct hd_plan_value *value)
{
    return value->instances == 1 && value->buffers == 1 && value->lag == 0 &&
           value->background_snapshots == 0 && value->homes > 1 && value->shared == HD_NOT_SHARED &&
           !value->sharded && !value->not_stored && plan->devices == 1;
}

static bool are_alike(const struct hd_plan *plan, int from, int to)
{
    const struct hd_spec *a = &plan->graph->values[from].spec, *b = &plan->graph->values[to].spec;
    return a->type == b->type && a->type->flat && a->bytes == b->bytes && a->partials == 1 &&
           b->partials == 1 && a->buckets == b->buckets;
}

static bool names(const struct hd_op *op, int value)
{
    for (int i = 0; op->kind == HD_OP_STEP && i < op->step->n_refs; i++)
        if (op->step->refs[i].value == value)
            return true;
    return op->kind != HD_OP_STEP && op->kind != HD_OP_REPEAT && op->value == value;
}

/* Returns whether the op before the mean is the only other one that names the operand, and writes
 * it, and everything that reads the result follows before the operand is written again. */
static bool is_between(const struct hd_plan *plan, int mean, int from, int to)
{
    int depth_end = plan->n_ops;
    for (int at = 0; at < mean; at++)
        if (plan->ops[at].kind == HD_OP_REPEAT && plan->ops[at].end > mean)
            depth_end = plan->ops[at].end;
    for (int at = 0; at < plan->n_ops; at++) {
        if (at == mean)
            continue;
        if (names(&plan->ops[at], from) && at != mean - 1)
            return false;
        if (names(&plan->ops[at], to) &&
            (at < mean || at >= depth_end || hd_step_changes(plan->ops[at].step, to)))
            return false;
    }
    const struct hd_op *writer = mean > 0 ? &plan->ops[mean - 1] : NULL;
    return writer && writer->kind == HD_OP_STEP && names(writer, from) && !writer->step->when &&
           writer->step->every == 0;
}

static bool is_alias(const struct hd_plan *plan, int at)
{
    const struct hd_op *op = &plan->ops[at];
    if (op->kind != HD_OP_STEP || op->step->verb->kind != HD_VERB_COLLECTIVE || !op->gpu ||
        op->lowering != HD_LOWERING_COLLECTIVE || op->step->when || op->step->every > 0 ||
        op->step->verb->combine != HD_MEAN)
        return false;
    const int from = op->step->refs[0].value, to = op->step->refs[1].value;
    return from < to && is_plain(plan, &plan->values[from]) && is_plain(plan, &plan->values[to]) &&
           are_alike(plan, from, to) && is_between(plan, at, from, to);
}

void hd_plan_find_aliases(struct hd_plan *plan)
{
    for (int i = 0; i < plan->graph->n_values; i++)
        plan->values[i].alias = HD_NO_VALUE;
    for (int at = 0; plan->ranks == 1 && plan->graph->shards == 1 && at < plan->n_ops; at++) {
        if (!is_alias(plan, at))
            continue;
        plan->ops[at].lowering = HD_LOWERING_FUSED;
        plan->values[plan->ops[at].step->refs[1].value].alias = plan->ops[at].step->refs[0].value;
    }
}
