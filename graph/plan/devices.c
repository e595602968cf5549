/* SPDX-License-Identifier: Apache-2.0 */
/* Places collectives and values where GPUs take part. A verb says which of its stages have a form
 * for GPUs, and all of these run there: nothing is decided while a run is under way. A value that
 * both processors touch has a replica on either side; the executor copies it over where a reader's
 * is older (graph/execute/copies.c). */
#include "graph/plan/plan_internal.h"
#include "runtime/base/tree.h"

/* Values up to this size that are not flat stay in host memory, which GPUs address: a task that
 * copies a few numbers costs more than fetching them over the bus. */
enum { PINNED_BYTES = 65536 };

/* Returns whether the subtask of a step that runs `stage` (or `finish` for stage -1) touches port
 * i. */
static bool subtask_touches(const struct hd_op *op, int i, enum hd_access_scope scope, int stage)
{
    if (op->lowering != HD_LOWERING_SUBTASKS)
        return true;
    if (stage >= 0 && stage < op->subtasks.early)
        return op->step->verb->ports[i].early;
    switch (scope) {
    case HD_SCOPE_FIRST_STAGE:
        return stage == op->subtasks.early;
    case HD_SCOPE_STAGE_RANGE:
        return stage >= 0;
    case HD_SCOPE_ALL:
    case HD_SCOPE_ITEM:
        return true;
    case HD_SCOPE_FINISH:
        break;
    }
    return stage < 0;
}

bool hd_op_touches(const struct hd_op *op, int i, bool gpu)
{
    if (op->step->verb->kind != HD_VERB_TASK)
        return op->gpu == gpu;
    const struct hd_gpu_verb *gpu_verb = hd_op_get_gpu_verb(op);
    if (gpu_verb && gpu_verb->touches && !gpu_verb->touches(op->step->args, i, gpu))
        return false;
    const enum hd_access_scope scope =
        i == op->flat ? HD_SCOPE_STAGE_RANGE : hd_step_get_scope(op->step, i);
    for (int stage = 0; stage < op->subtasks.stages; stage++)
        if (hd_op_is_stage_on_gpu(op, stage) == gpu && subtask_touches(op, i, scope, stage))
            return true;
    return op->lowering == HD_LOWERING_SUBTASKS && op->step->verb->finish &&
           hd_op_is_finish_on_gpu(op) == gpu && subtask_touches(op, i, scope, -1);
}

/* Returns whether a step touches a value, or changes it, on GPUs or on the host. */
static bool is_touched(const struct hd_plan *plan, int value, bool gpu, bool changes)
{
    for (int at = 0; at < plan->n_ops; at++) {
        const struct hd_op *op = &plan->ops[at];
        for (int i = 0; op->kind == HD_OP_STEP && i < op->step->n_refs; i++)
            if (op->step->refs[i].value == value && hd_op_touches(op, i, gpu) &&
                (!changes || hd_ref_changes(&op->step->refs[i])))
                return true;
    }
    return false;
}

/* -- Collectives ------------------------------------------------------------------------------- */
/* One GPU that holds all operands of a rank adds them itself, and the device communicator goes on
 * from there. Several GPUs of a rank add their own operands, and the first one adds their sums
 * (graph/execute/gpu_reduce.c). The host alone rounds. */

static bool can_reduce_on_gpu(const struct hd_plan *plan, int value)
{
    const struct hd_reduction *reduction = plan->graph->values[value].spec.type->reduction;
    const bool alone = plan->ranks == 1 && plan->devices == 1;
    if (!reduction || !reduction->reduce_on_gpu || (!alone && !reduction->add_on_gpu))
        return false;
    if (plan->ranks > 1 && !plan->device_comm)
        return false;
    return hd_tree_is_block_allowed(plan->graph->shards, plan->ranks * plan->devices);
}

void hd_plan_place_reductions(struct hd_plan *plan)
{
    for (int at = 0; at < plan->n_ops; at++) {
        struct hd_op *op = &plan->ops[at];
        if (op->kind != HD_OP_STEP || op->step->verb->kind != HD_VERB_COLLECTIVE ||
            plan->devices == 0)
            continue;
        const int value = op->step->refs[0].value;
        op->gpu = !hd_op_get_rounding(op) && can_reduce_on_gpu(plan, value) &&
                  is_touched(plan, value, true, true) &&
                  plan->graph->values[op->step->refs[1].value].spec.placement == HD_GLOBAL;
        if (op->gpu && plan->devices > 1)
            op->lowering = HD_LOWERING_GPU_REDUCE;
    }
}

/* -- Values ------------------------------------------------------------------------------------ */

static enum hd_residence find_residence(const struct hd_plan *plan, int value)
{
    const struct hd_spec *spec = &plan->graph->values[value].spec;
    if (!is_touched(plan, value, true, false))
        return HD_ON_HOST;
    if (spec->type->pinned || (spec->bytes <= PINNED_BYTES && !spec->type->flat))
        return HD_PINNED;
    return is_touched(plan, value, false, false) ? HD_ON_BOTH : HD_ON_GPUS;
}

/* Snapshots are made where a GPU reads them, if one does. */
static void place_snapshots(struct hd_plan *plan, const struct hd_op *op)
{
    for (int i = 0; op->kind == HD_OP_STEP && i < op->step->n_refs; i++) {
        const struct hd_ref *ref = &op->step->refs[i];
        if (ref->value == HD_NO_VALUE || !hd_op_touches(op, i, true))
            continue;
        struct hd_plan_value *value = &plan->values[ref->value];
        value->lagged.on_gpu |= ref->lag > 0;
        value->background.on_gpu |= op->sources[i] == HD_FROM_BACKGROUND;
    }
}

void hd_plan_assign_homes(struct hd_plan *plan)
{
    for (int i = 0; i < plan->graph->n_values; i++) {
        struct hd_plan_value *value = &plan->values[i];
        const bool shard = plan->graph->values[i].spec.placement == HD_SHARD;
        value->residence = find_residence(plan, i);
        value->homes = value->residence < HD_ON_BOTH ? 1 : shard ? 2 : 1 + plan->devices;
    }
    for (int at = 0; at < plan->n_ops; at++)
        place_snapshots(plan, &plan->ops[at]);
}

int hd_plan_get_replica(const struct hd_plan *plan, int value, int home)
{
    if (home == 0 || plan->values[value].homes == 1)
        return 0;
    return plan->graph->values[value].spec.placement == HD_SHARD ? 1 : home;
}

int hd_plan_get_home(const struct hd_plan *plan, int i, int n)
{
    return 1 + i * plan->devices / n;
}

int hd_plan_get_replica_home(const struct hd_plan *plan, int value, int replica, int instance)
{
    if (plan->graph->values[value].spec.placement != HD_SHARD)
        return replica;
    return hd_plan_get_home(plan, instance, plan->values[value].instances);
}
