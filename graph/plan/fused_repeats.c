/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the repeats whose steps on the GPU are given to it as one task, so that several updates are
 * one launch and the host has nothing to do in between. Where several GPUs or ranks take part,
 * tasks stay apart: the buckets that are done travel while others are computed. */
#include "graph/plan/plan_internal.h"

#include <stdio.h>

static bool has_task_on_gpu(const struct hd_op *op)
{
    return op->kind == HD_OP_STEP && op->gpu && op->lowering != HD_LOWERING_FUSED;
}

/* Names the tasks of ops (at, end), unless there are fewer than two or an inner repeat has some. */
static void fuse(struct hd_plan *plan, int at)
{
    const struct hd_op *first = NULL, *last = NULL;
    struct hd_op *repeat = &plan->ops[at];
    for (int i = at + 1; i < repeat->end; i++) {
        const struct hd_op *op = &plan->ops[i];
        if (op->kind == HD_OP_REPEAT)
            return;
        if (!has_task_on_gpu(op))
            continue;
        first = first ? first : op;
        last = op;
    }
    if (first == last)
        return;
    snprintf(repeat->fused, sizeof repeat->fused, "%.28s..%.28s", first->step->verb->name,
             last->step->verb->name);
    for (int i = at + 1; i < repeat->end; i++)
        plan->ops[i].in_fused = true;
}

void hd_plan_find_fused_repeats(struct hd_plan *plan)
{
    const bool alone = plan->ranks == 1 && plan->devices == 1;
    for (int at = 0; alone && at < plan->n_ops; at++)
        if (plan->ops[at].kind == HD_OP_REPEAT)
            fuse(plan, at);
}
