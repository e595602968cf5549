/* SPDX-License-Identifier: Apache-2.0 */
/* Writes plans as text, whose format is stable because golden tests compare it, and as Graphviz. */
#include "graph/plan/plan.h"

#include <inttypes.h>
#include <string.h>

static const char *value_name(const struct hd_plan *plan, int value)
{
    return plan->graph->values[value].spec.name;
}

/* Widths of columns. */
struct widths {
    int name, type;
};

static struct widths measure_values(const struct hd_plan *plan)
{
    struct widths widths = {14, 10};
    for (int i = 0; i < plan->graph->n_values; i++) {
        const struct hd_spec *spec = &plan->graph->values[i].spec;
        const int name = (int)strlen(spec->name), type = (int)strlen(spec->type->name);
        widths.name = name > widths.name ? name : widths.name;
        widths.type = type > widths.type ? type : widths.type;
    }
    return widths;
}

static void dump_value(const struct hd_plan *plan, int i, struct widths widths, FILE *file)
{
    static const char *const placements[] = {"shard", "global", "rank0"};
    const struct hd_spec *spec = &plan->graph->values[i].spec;
    const struct hd_plan_value *value = &plan->values[i];
    fprintf(file, "  %-*s %-*s %-6s", widths.name, spec->name, widths.type, spec->type->name,
            placements[spec->placement]);
    if (value->storage == HD_STORE_NOTHING)
        fprintf(file, " not stored");
    else if (value->instances == 0)
        fprintf(file, " none here");
    else if (spec->placement == HD_SHARD)
        fprintf(file, " shards %" PRId64 "-%" PRId64, value->first,
                value->first + value->instances - 1);
    fprintf(file, " buckets %d buffers %d", spec->buckets, value->buffers);
    if (value->lag)
        fprintf(file, " lag %d", value->lag);
    if (value->lagged.buffers)
        fprintf(file, " lag_snapshots %d", value->lagged.buffers);
    if (value->background.buffers)
        fprintf(file, " background_snapshots %d", value->background.buffers);
    if (spec->partials > 1)
        fprintf(file, " partials %" PRId64, spec->partials);
    if (value->shared != HD_NOT_SHARED)
        fprintf(file, " shared");
    if (value->storage == HD_STORE_SLICES)
        fprintf(file, " sharded");
    if (value->residence == HD_PINNED)
        fprintf(file, " pinned");
    if (value->homes > 1)
        fprintf(file, " on host and gpu%s", value->homes > 2 ? "s" : "");
    if (spec->gpu_order)
        fprintf(file, " in gpu order");
    if (spec->type->none)
        fprintf(file, " starts as none");
    if (spec->init)
        fprintf(file, " starts as %s", spec->init->name);
    fputc('\n', file);
}

/* Says which processors touch a value that has replicas on both sides. */
static void dump_processors(const struct hd_plan *plan, const struct hd_op *op, int i, FILE *file)
{
    if (plan->values[op->step->refs[i].value].homes == 1)
        return;
    const bool gpu = hd_op_touches(op, i, true), host = hd_op_touches(op, i, false);
    fprintf(file, " (%s)", gpu && host ? "both" : gpu ? "gpu" : "host");
}

static void dump_refs(const struct hd_plan *plan, const struct hd_op *op, enum hd_mode mode,
                      const char *title, FILE *file)
{
    bool any = false;
    for (int i = 0; i < op->step->n_refs; i++) {
        const struct hd_ref *ref = &op->step->refs[i];
        if (ref->value == HD_NO_VALUE || ref->mode != mode)
            continue;
        fprintf(file, "%s%s", any ? ", " : title, value_name(plan, ref->value));
        if (ref->lag)
            fprintf(file, "@-%d", ref->lag);
        if (op->sources[i] == HD_FROM_BACKGROUND)
            fprintf(file, " (snapshot)");
        if (op->lowering == HD_LOWERING_SUBTASKS && hd_step_get_scope(op->step, i) == HD_SCOPE_ITEM)
            fprintf(file, " (by items)");
        dump_processors(plan, op, i, file);
        any = true;
    }
}

static void dump_expr(const struct hd_plan *plan, const char *title, const struct hd_expr *expr,
                      FILE *file)
{
    const char *names[256];
    int n = plan->graph->n_slots < 256 ? plan->graph->n_slots : 256;
    for (int i = 0; i < n; i++)
        names[i] = plan->graph->slots[i].name;
    fputs(title, file);
    hd_expr_dump(expr, names, file);
}

static void dump_guards(const struct hd_plan *plan, const struct hd_step *step, FILE *file)
{
    if (step->every)
        fprintf(file, " every %" PRId64 " %s first %" PRId64, step->every,
                plan->graph->counters[step->every_counter], step->first);
    if (step->when)
        dump_expr(plan, " when ", step->when, file);
    if (step->condition) {
        dump_expr(plan, " if ", step->condition, file);
        fprintf(file, " reason %s", step->reason);
    }
    if (step->counts != HD_NO_COUNTER)
        fprintf(file, " counts %s", plan->graph->counters[step->counts]);
}

static const char *where(const struct hd_plan *plan, const struct hd_op *op)
{
    if (op->step->verb->kind != HD_VERB_TASK)
        return op->step->verb->kind == HD_VERB_STOP ? "stop" : "collective";
    if (op->step->placement == HD_SHARD)
        return "shard";
    if (op->step->placement == HD_RANK0)
        return plan->rank == 0 ? "rank0" : "not here";
    return "global";
}

static void dump_devices(const struct hd_op *op, FILE *file)
{
    int on_gpu = 0;
    if (!op->gpu)
        return;
    for (int stage = 0; stage < op->subtasks.stages; stage++)
        on_gpu += hd_op_is_stage_on_gpu(op, stage);
    const bool split = op->step->verb->kind == HD_VERB_TASK && on_gpu < op->subtasks.stages;
    fprintf(file, split ? ", gpu %d stages" : ", gpu", on_gpu);
    if (op->subtasks.joint_items > 1)
        fprintf(file, " for %" PRId64 " items", op->subtasks.joint_items);
    if (op->step->verb->finish && !hd_op_is_finish_on_gpu(op))
        fprintf(file, ", finish on cpu");
}

static void dump_channels(const struct hd_plan *plan, const struct hd_op *op, FILE *file)
{
    const struct hd_channels *channels = &op->channels;
    if (plan->channels == 1 || channels->n == 0 || op->gpu)
        return;
    fprintf(file, channels->n > 1 ? ", channels %d to %d" : ", channel %d", channels->first,
            channels->first + channels->n - 1);
}

static void dump_step(const struct hd_plan *plan, const struct hd_op *op, FILE *file)
{
    fprintf(file, "%s [%s", op->step->label, where(plan, op));
    if (op->buckets > 1)
        fprintf(file, ", %d buckets", op->buckets);
    if (op->lowering == HD_LOWERING_SUBTASKS)
        fprintf(file, ", %" PRId64 " items x %d stages", op->subtasks.items, op->subtasks.stages);
    if (op->lowering == HD_LOWERING_SUBTASKS && op->subtasks.early > 0)
        fprintf(file, ", %d early", op->subtasks.early);
    if (op->lowering == HD_LOWERING_SUBTASKS && op->subtasks.finish_last)
        fprintf(file, ", finish last");
    if (op->lowering == HD_LOWERING_SHARDED_UPDATE)
        fprintf(file, ", in slices with %s", op->mean->step->label);
    if (hd_op_get_rounding(op))
        fprintf(file, ", exchanged in %s, not in slices", hd_op_get_rounding(op)->name);
    if (op->lowering == HD_LOWERING_FUSED)
        fprintf(file, op->gpu ? ", in place" : ", in slices");
    dump_devices(op, file);
    dump_channels(plan, op, file);
    fprintf(file, "%s]", op->background ? ", background" : "");
    dump_refs(plan, op, HD_READ, " reads ", file);
    dump_refs(plan, op, HD_UPDATE, " updates ", file);
    dump_refs(plan, op, HD_WRITE, " writes ", file);
    dump_guards(plan, op->step, file);
}

static void dump_cross_shard_sums(const struct hd_op *op, int depth, FILE *file)
{
    for (int stage = 0; op->cross_shard_sums && stage < op->subtasks.stages; stage++)
        if (op->cross_shard_sums[stage].n > 0)
            fprintf(file, "%*s%s [collective, %" PRId64 " numbers] after stage %d\n", 4 + 2 * depth,
                    "", op->cross_shard_sums[stage].label, op->cross_shard_sums[stage].n, stage);
}

static void dump_ops(const struct hd_plan *plan, int begin, int end, int depth, FILE *file)
{
    for (int at = begin; at < end; at++) {
        const struct hd_op *op = &plan->ops[at];
        fprintf(file, "%*s", 2 + 2 * depth, "");
        switch (op->kind) {
        case HD_OP_STEP:
            dump_step(plan, op, file);
            break;
        case HD_OP_REPEAT:
            fprintf(file, "repeat %" PRId64, op->step->times);
            if (op->fused[0])
                fprintf(file, " [gpu: one task %s]", op->fused);
            dump_guards(plan, op->step, file);
            break;
        case HD_OP_LAG_SNAPSHOT:
            fprintf(file, "snapshot %s for lagged reads", value_name(plan, op->value));
            break;
        case HD_OP_BACKGROUND_SNAPSHOT:
            fprintf(file, "snapshot %s for %s", value_name(plan, op->value), op->step->label);
            break;
        case HD_OP_COMPARE:
            fprintf(file, "compare %s every %" PRId64 " update", value_name(plan, op->value),
                    plan->param_check_interval);
            break;
        }
        fputc('\n', file);
        dump_cross_shard_sums(op, depth, file);
        if (op->kind == HD_OP_REPEAT) {
            dump_ops(plan, at + 1, op->end, depth + 1, file);
            at = op->end - 1;
        }
    }
}

static void dump_parameter(const struct hd_strategy_parameter *parameter, FILE *file)
{
    if (parameter->word)
        fprintf(file, "  %s: %s\n", parameter->name, parameter->word);
    else
        fprintf(file, "  %s: %.10g\n", parameter->name, parameter->value);
}

void hd_plan_dump(const struct hd_plan *plan, FILE *file)
{
    fprintf(file, "plan of rank %d of %d, %" PRId64 " shards", plan->rank, plan->ranks,
            plan->graph->shards);
    if (plan->devices > 0)
        fprintf(file, ", %d gpu%s", plan->devices, plan->devices > 1 ? "s" : "");
    fputc('\n', file);
    if (plan->graph->n_parameters) {
        fprintf(file, "strategy\n");
        for (int i = 0; i < plan->graph->n_parameters; i++)
            dump_parameter(&plan->graph->parameters[i], file);
    }
    fprintf(file, "values\n");
    const struct widths widths = measure_values(plan);
    for (int i = 0; i < plan->graph->n_values; i++)
        dump_value(plan, i, widths, file);
    fprintf(file, "iteration\n");
    hd_plan_dump_iteration(plan, file);
}

void hd_plan_dump_iteration(const struct hd_plan *plan, FILE *file)
{
    dump_ops(plan, 0, plan->n_ops, 0, file);
}

/* -- Graphviz ---------------------------------------------------------------------------------- */

static void dot_edges(const struct hd_plan *plan, int at, FILE *file)
{
    const struct hd_op *op = &plan->ops[at];
    if (op->kind != HD_OP_STEP) {
        fprintf(file, "  v%d -> s%d;\n", op->value, at);
        return;
    }
    for (int i = 0; i < op->step->n_refs; i++) {
        const struct hd_ref *ref = &op->step->refs[i];
        if (ref->value == HD_NO_VALUE)
            continue;
        if (ref->mode != HD_WRITE && ref->lag)
            fprintf(file, "  v%d -> s%d [style=dashed, label=\"-%d\"];\n", ref->value, at,
                    ref->lag);
        else if (ref->mode != HD_WRITE)
            fprintf(file, "  v%d -> s%d;\n", ref->value, at);
        if (ref->mode != HD_READ)
            fprintf(file, "  s%d -> v%d;\n", at, ref->value);
    }
}

void hd_plan_dump_dot(const struct hd_plan *plan, FILE *file)
{
    fprintf(file, "digraph plan {\n  rankdir=LR;\n  node [fontname=sans];\n");
    for (int i = 0; i < plan->graph->n_values; i++)
        fprintf(file, "  v%d [label=\"%s\", shape=box, style=rounded];\n", i, value_name(plan, i));
    for (int at = 0; at < plan->n_ops; at++) {
        const struct hd_op *op = &plan->ops[at];
        if (op->kind == HD_OP_REPEAT)
            continue;
        if (op->kind == HD_OP_STEP)
            fprintf(file, "  s%d [label=\"%s\"%s];\n", at, op->step->label,
                    op->background ? ", color=gray" : "");
        else
            fprintf(file, "  s%d [label=\"%s\", color=gray];\n", at,
                    op->kind == HD_OP_COMPARE ? "compare" : "snapshot");
        dot_edges(plan, at, file);
    }
    fprintf(file, "}\n");
}
