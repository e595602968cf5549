/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a plan: buffers for every value, ops for every step in program order, then the passes that
 * decide how each op is lowered. */
#include "graph/plan/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"

#include <string.h>

int hd_plan_allows(int64_t shards, int ranks)
{
    if (hd_tree_is_block_allowed(shards, ranks))
        return HD_OK;
    char allowed[256];
    hd_tree_format_allowed(shards, allowed, sizeof allowed);
    return hd_fail(HD_ERR_INPUT,
                   "%lld shards cannot be divided among %d ranks: allowed numbers of "
                   "ranks are %s",
                   (long long)shards, ranks, allowed);
}

/* -- Buffers ----------------------------------------------------------------------------------- */

static void note_lags(struct hd_plan *plan, const struct hd_step *step)
{
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (ref->value != HD_NO_VALUE && ref->lag > plan->values[ref->value].lag)
            plan->values[ref->value].lag = ref->lag;
    }
}

static void place_instances(struct hd_plan *plan, int i)
{
    const enum hd_placement placement = plan->graph->values[i].spec.placement;
    struct hd_plan_value *value = &plan->values[i];
    value->instances = hd_plan_count_instances(plan, placement);
    value->first = placement == HD_SHARD ? value->instances * (int64_t)plan->rank : 0;
}

static void make_labels(struct hd_plan *plan, int i)
{
    const char *name = plan->graph->values[i].spec.name;
    struct hd_plan_value *value = &plan->values[i];
    snprintf(value->snapshot_label, HD_LABEL_BYTES, "snapshot %s", name);
    snprintf(value->compare_label, HD_LABEL_BYTES, "compare %s", name);
    snprintf(value->transfer_label, HD_LABEL_BYTES, "transfer %s", name);
}

/* Lagged readers need the versions at the starts of this and the last `lag` iterations. A value
 * that is only written keeps them in its rotation; one that is updated in place is copied. */
static void size_buffers(struct hd_plan *plan, int i)
{
    const struct hd_graph_value *declared = &plan->graph->values[i];
    struct hd_plan_value *value = &plan->values[i];
    value->buffers = declared->updated ? 1 : declared->slots;
    if (value->lag > 0 && declared->updated)
        value->lagged.buffers = value->lag + 1;
    else if (value->lag > 0 && declared->written)
        value->buffers += value->lag + 1;
}

/* -- Ops --------------------------------------------------------------------------------------- */

static struct hd_op *add_op(struct hd_plan *plan, enum hd_op_kind kind, struct hd_step *step,
                            int value)
{
    struct hd_op *op = &plan->ops[plan->n_ops++];
    *op = (struct hd_op){.kind = kind,
                         .step = step,
                         .value = value,
                         .buckets = 1,
                         .subtasks = {.items = 1, .stages = 1},
                         .flat = -1};
    return op;
}

/* Returns the value by whose buckets a step has tasks. */
static int find_cut_value(const struct hd_graph *graph, const struct hd_step *step)
{
    for (int i = 0; step->verb->by_bucket && i < step->n_refs; i++)
        if (hd_ref_changes(&step->refs[i]) && graph->values[step->refs[i].value].spec.type->flat)
            return step->refs[i].value;
    return HD_NO_VALUE;
}

/* Item i of a step in subtasks has partial i to itself; an only item may have several. */
static int check_partials(const struct hd_graph *graph, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    for (int i = 0; i < step->n_refs; i++) {
        if (step->refs[i].value == HD_NO_VALUE ||
            (i != op->flat && hd_step_get_scope(step, i) != HD_SCOPE_ITEM))
            continue;
        const struct hd_spec *spec = &graph->values[step->refs[i].value].spec;
        if (spec->partials != op->subtasks.items && (i == op->flat || op->subtasks.items > 1))
            return hd_fail(HD_ERR_UNSUPPORTED, "%s has %lld items, but '%s' has %lld partials",
                           step->label, (long long)op->subtasks.items, spec->name,
                           (long long)spec->partials);
    }
    return HD_OK;
}

/* Scratch does not outlast a call, and a step in the background, or one that waits, is called many
 * times. */
static bool needs_lasting_work(const struct hd_op *op)
{
    return (op->background || op->subtasks.waits) &&
           (op->subtasks.work_bytes > 0 || op->subtasks.header_bytes > 0);
}

static enum hd_lowering get_lowering(const struct hd_op *op)
{
    const struct hd_verb *verb = op->step->verb;
    if (verb->kind == HD_VERB_STOP)
        return HD_LOWERING_STOP;
    if (verb->kind != HD_VERB_TASK)
        return HD_LOWERING_COLLECTIVE;
    return op->subtasks.items == 1 && op->subtasks.stages == 1 &&
                   !(op->gpu && (verb->finish || verb->gpu->again)) && !needs_lasting_work(op)
               ? HD_LOWERING_TASK
               : HD_LOWERING_SUBTASKS;
}

static int split_in_subtasks(const struct hd_graph *graph, struct hd_op *op)
{
    const struct hd_step *step = op->step;
    if (step->verb->get_subtasks) {
        if (op->gpu && step->verb->gpu->get_subtasks)
            step->verb->gpu->get_subtasks(step->args, &op->subtasks);
        else
            step->verb->get_subtasks(step->args, &op->subtasks);
        for (int i = 0; i < step->n_refs; i++)
            if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode == HD_WRITE &&
                graph->values[step->refs[i].value].spec.type->flat &&
                hd_step_get_scope(step, i) != HD_SCOPE_ITEM)
                op->flat = i;
    }
    op->lowering = get_lowering(op);
    HD_TRY(check_partials(graph, op));
    if (op->subtasks.stages > 1 && op->flat >= 0 && !step->verb->stage_range)
        return hd_fail(HD_ERR_UNSUPPORTED, "%s has stages, but does not say what they write",
                       step->label);
    return hd_plan_add_cross_shard_sums(op);
}

/* Returns whether GPUs compute with all values of a step. */
static bool has_values_of_gpus(const struct hd_graph *graph, const struct hd_step *step)
{
    for (int i = 0; i < step->n_refs; i++) {
        if (step->refs[i].value == HD_NO_VALUE)
            continue;
        const struct hd_spec *spec = &graph->values[step->refs[i].value].spec;
        const struct hd_device_form *form = spec->type->device;
        if (form && form->supports && !form->supports(spec))
            return false;
    }
    return true;
}

static bool has_form_for_gpus(const struct hd_graph *graph, const struct hd_step *step)
{
    const struct hd_gpu_verb *gpu = step->verb->gpu;
    return gpu && has_values_of_gpus(graph, step) && (!gpu->supports || gpu->supports(step->args));
}

bool hd_plan_can_use_gpus(const struct hd_graph *graph)
{
    for (int i = 0; i < graph->total_steps; i++) {
        const struct hd_step *step = graph->all_steps[i];
        const bool decides = step->verb && step->verb->gpu && step->verb->gpu->decides;
        if (decides && !has_form_for_gpus(graph, step))
            return false;
    }
    return true;
}

/* Work that a GPU is given all at once would hold up others, so none of it is in the background. */
static bool can_run_on_gpu(const struct hd_graph *graph, const struct hd_op *op)
{
    return has_form_for_gpus(graph, op->step) && (!op->background || op->step->verb->gpu->again);
}

static int add_step(struct hd_plan *plan, struct hd_step *step, const bool *background)
{
    enum hd_source sources[HD_PORTS_MAX] = {0};
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (ref->value == HD_NO_VALUE)
            continue;
        if (ref->lag > 0)
            sources[i] = HD_FROM_LAG;
        else if (background[step->index])
            sources[i] = hd_plan_get_background_source(plan, step, ref);
        if (sources[i] == HD_FROM_BACKGROUND)
            add_op(plan, HD_OP_BACKGROUND_SNAPSHOT, step, ref->value);
    }
    struct hd_op *op = add_op(plan, HD_OP_STEP, step, find_cut_value(plan->graph, step));
    if (op->value != HD_NO_VALUE)
        op->buckets = plan->graph->values[op->value].spec.buckets;
    op->background = background[step->index];
    op->gpu = plan->devices > 0 && can_run_on_gpu(plan->graph, op);
    if (step->verb->scratch)
        op->scratch = hd_align_up(step->verb->scratch(step->args));
    memcpy(op->sources, sources, sizeof sources);
    return split_in_subtasks(plan->graph, op);
}

static int add_steps(struct hd_plan *plan, struct hd_step *steps, int n, const bool *background)
{
    for (int i = 0; i < n; i++) {
        if (steps[i].verb) {
            HD_TRY(add_step(plan, &steps[i], background));
            continue;
        }
        int at = plan->n_ops;
        add_op(plan, HD_OP_REPEAT, &steps[i], HD_NO_VALUE);
        HD_TRY(add_steps(plan, steps[i].steps, steps[i].n_steps, background));
        plan->ops[at].end = plan->n_ops;
    }
    return HD_OK;
}

static void add_compares(struct hd_plan *plan)
{
    const struct hd_graph *graph = plan->graph;
    plan->update_counter = hd_graph_find_counter(graph, "update");
    if (plan->ranks == 1 || plan->update_counter == HD_NO_COUNTER ||
        plan->param_check_interval == 0)
        return;
    for (int i = 0; i < graph->n_values; i++)
        if (graph->values[i].spec.placement == HD_GLOBAL && graph->values[i].spec.type->flat &&
            graph->values[i].updated && plan->values[i].storage != HD_STORE_SLICES)
            add_op(plan, HD_OP_COMPARE, NULL, i);
}

static int build(struct hd_plan *plan, bool *background_steps)
{
    struct hd_graph *graph = plan->graph;
    hd_plan_find_background_steps(plan, background_steps);
    for (int i = 0; i < graph->total_steps; i++)
        note_lags(plan, graph->all_steps[i]);
    for (int i = 0; i < graph->n_values; i++) {
        place_instances(plan, i);
        make_labels(plan, i);
        size_buffers(plan, i);
        if (plan->values[i].lagged.buffers)
            add_op(plan, HD_OP_LAG_SNAPSHOT, NULL, i);
    }
    HD_TRY(add_steps(plan, graph->steps, graph->n_steps, background_steps));
    hd_plan_place_reductions(plan);
    HD_TRY(hd_plan_find_sharded_updates(plan));
    hd_plan_assign_homes(plan);
    hd_plan_find_aliases(plan);
    hd_plan_find_fused_repeats(plan);
    add_compares(plan);
    hd_plan_find_transient_values(plan);
    hd_plan_find_gpu_orders(plan);
    return HD_OK;
}

int hd_plan_create(struct hd_graph *graph, int rank, int ranks, const struct hd_plan_gpus *gpus,
                   int64_t param_check_interval, struct hd_plan **plan_p)
{
    struct hd_plan *plan = hd_alloc(1, sizeof *plan);
    if (!plan)
        return HD_ERR_NOMEM;
    plan->graph = graph;
    plan->rank = rank;
    plan->ranks = ranks;
    plan->devices = gpus ? gpus->n : 0;
    plan->device_comm = gpus && gpus->device_comm;
    plan->param_check_interval = param_check_interval;
    plan->channels = 1;
    /* A snapshot per value and per ref at most, beside the steps and the comparisons. */
    int64_t max_ops = 2 * graph->n_values + (int64_t)graph->total_steps * (1 + HD_PORTS_MAX);
    plan->values = hd_alloc(graph->n_values, sizeof *plan->values);
    plan->ops = hd_alloc(max_ops, sizeof *plan->ops);
    bool *background = hd_alloc(graph->total_steps, sizeof *background);
    int status = plan->values && plan->ops && background ? build(plan, background) : HD_ERR_NOMEM;
    hd_free(background);
    if (status != HD_OK) {
        hd_plan_destroy(plan);
        return status;
    }
    *plan_p = plan;
    return HD_OK;
}

void hd_plan_destroy(struct hd_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->n_ops; i++)
        hd_free(plan->ops[i].cross_shard_sums);
    hd_free(plan->values);
    hd_free(plan->ops);
    hd_free(plan);
}
