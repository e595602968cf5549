/* SPDX-License-Identifier: Apache-2.0 */
/* Finds sharded updates: a mean over shards whose only reader (the optimizer) can work off the mean
 * slice by slice. The two become one: for each bucket, a rank adds up its slice over all shards and
 * uses it at once, and the mean is never stored. Among several ranks every rank does its slice of
 * every bucket; results of the step that others read are copied from rank to rank, and the rest
 * (the optimizer's state) stays sharded. Rajbhandari et al. 2020 (ZeRO, stage 1). */
#include "graph/plan/plan_internal.h"
#include "runtime/base/status.h"

#include <string.h>

static double get_parameter(const struct hd_graph *graph, const char *name, double otherwise)
{
    for (int i = 0; i < graph->n_parameters; i++)
        if (strcmp(graph->parameters[i].name, name) == 0)
            return graph->parameters[i].value;
    return otherwise;
}

static const struct hd_spec *spec_of(const struct hd_plan *plan, const struct hd_ref *ref)
{
    return &plan->graph->values[ref->value].spec;
}

/* -- Who else uses a value --------------------------------------------------------------------- */

static bool used_by_others(const struct hd_plan *plan, int value, const struct hd_step *but,
                           const struct hd_step *and_but)
{
    const struct hd_graph *graph = plan->graph;
    for (int i = 0; i < graph->n_values; i++)
        if (graph->values[i].spec.init == &graph->values[value].spec)
            return true;
    for (int i = 0; i < graph->total_steps; i++)
        if (graph->all_steps[i] != but && graph->all_steps[i] != and_but &&
            hd_step_names(graph->all_steps[i], value))
            return true;
    return false;
}

static bool changed_by_others(const struct hd_plan *plan, int value, const struct hd_step *but)
{
    for (int i = 0; i < plan->graph->total_steps; i++)
        if (plan->graph->all_steps[i] != but && hd_step_changes(plan->graph->all_steps[i], value))
            return true;
    return false;
}

/* -- Conditions -------------------------------------------------------------------------------- */

static bool unguarded(const struct hd_step *step)
{
    return !step->when && step->every == 0;
}

/* Returns whether the only step that writes `value` stands ahead of op `at` in the same list,
 * without guards: then the mean has something new every time. */
static bool written_just_before(const struct hd_plan *plan, int value, int at)
{
    for (int i = at - 1; i >= 0 && plan->ops[i].kind != HD_OP_REPEAT; i--) {
        const struct hd_op *op = &plan->ops[i];
        if (op->kind != HD_OP_STEP || op->step->depth != plan->ops[at].step->depth)
            continue;
        if (hd_step_changes(op->step, value))
            return op->step->verb->kind == HD_VERB_TASK && unguarded(op->step) &&
                   !changed_by_others(plan, value, op->step);
    }
    return false;
}

static bool mean_fits(const struct hd_plan *plan, int at)
{
    const struct hd_op *mean = &plan->ops[at];
    if (mean->kind != HD_OP_STEP || mean->step->verb->kind != HD_VERB_COLLECTIVE ||
        mean->step->combine != HD_MEAN || hd_op_get_rounding(mean) || !unguarded(mean->step) ||
        mean->step->refs[0].lag > 0)
        return false;
    const struct hd_spec *from = spec_of(plan, &mean->step->refs[0]);
    double mib = (double)from->elements * sizeof(float) / 1048576.0;
    return from->type->flat && from->type->weight &&
           mib >= get_parameter(plan->graph, "shard_optimizer_above_mb", 1) &&
           written_just_before(plan, mean->step->refs[0].value, at);
}

/* Returns whether the step after a mean can take it slice by slice: the values that the step
 * changes have the mean's buckets, and nobody else changes them, as other ranks copy them without
 * asking.
 */
static bool user_fits(const struct hd_plan *plan, const struct hd_op *mean,
                      const struct hd_op *user)
{
    const struct hd_spec *from = spec_of(plan, &mean->step->refs[0]);
    int value = mean->step->refs[1].value;
    const struct hd_step *step = user->step;
    if (user->kind != HD_OP_STEP || user->lowering != HD_LOWERING_TASK || user->background ||
        user->gpu || mean->gpu || step->depth != mean->step->depth || !step->verb->update_slice ||
        !step->verb->by_bucket || step->placement != HD_GLOBAL || !unguarded(step) ||
        step->refs[0].value != value || step->refs[0].lag > 0 ||
        used_by_others(plan, value, mean->step, step))
        return false;
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (i > 0 && (ref->value == HD_NO_VALUE || ref->mode == HD_READ))
            continue;
        const struct hd_spec *spec = spec_of(plan, ref);
        if (!spec->type->flat || spec->buckets != from->buckets || spec->elements != from->elements)
            return false;
        if (i > 0 && (ref->mode != HD_UPDATE || changed_by_others(plan, ref->value, step)))
            return false;
    }
    return true;
}

/* -- Lowering ---------------------------------------------------------------------------------- */

static void share(struct hd_plan *plan, int value)
{
    struct hd_plan_value *planned = &plan->values[value];
    if (planned->shared != HD_NOT_SHARED)
        return;
    planned->shared = plan->shared_bytes;
    plan->shared_bytes += hd_plan_round_to_pages(plan->graph->values[value].spec.bytes) *
                          planned->instances * planned->buffers;
}

/* Returns "mean(grad.3)" for bucket 3 of "mean(grad)", or NULL without memory. */
static const char *make_bucket_label(struct hd_graph *graph, const char *label, int bucket)
{
    char *text = hd_graph_alloc(graph, HD_LABEL_BYTES, 1);
    int length = (int)strlen(label) - 1;
    if (text)
        snprintf(text, HD_LABEL_BYTES, "%.*s.%d)", length, label, bucket);
    return text;
}

static int make_labels(struct hd_graph *graph, struct hd_op *update)
{
    const char *label = update->mean->step->label;
    const int buckets = graph->values[update->mean->step->refs[0].value].spec.buckets;
    const char **labels = hd_graph_alloc(graph, buckets, sizeof *labels);
    if (!labels)
        return HD_ERR_NOMEM;
    for (int bucket = 0; bucket < buckets; bucket++) {
        labels[bucket] = buckets == 1 ? label : make_bucket_label(graph, label, bucket);
        if (!labels[bucket])
            return HD_ERR_NOMEM;
    }
    update->labels = labels;
    return HD_OK;
}

/* Values that the step alone uses are where they are computed. */
static void shard_results(struct hd_plan *plan, const struct hd_op *user)
{
    for (int i = 1; i < user->step->n_refs; i++)
        if (hd_ref_changes(&user->step->refs[i]) &&
            !used_by_others(plan, user->step->refs[i].value, user->step, NULL))
            plan->values[user->step->refs[i].value].storage = HD_STORE_SLICES;
}

static void place_values(struct hd_plan *plan, const struct hd_op *mean, const struct hd_op *user)
{
    int value = mean->step->refs[1].value;
    plan->values[value].storage = HD_STORE_NOTHING;
    plan->values[value].instances = 0;
    if (plan->ranks == 1)
        return;
    share(plan, mean->step->refs[0].value);
    shard_results(plan, user);
    for (int i = 1; i < user->step->n_refs; i++) {
        const int changed = user->step->refs[i].value;
        if (hd_ref_changes(&user->step->refs[i]) &&
            plan->values[changed].storage != HD_STORE_SLICES)
            share(plan, changed);
    }
}

int hd_plan_find_sharded_updates(struct hd_plan *plan)
{
    for (int i = 0; i < plan->graph->n_values; i++)
        plan->values[i].shared = HD_NOT_SHARED;
    for (int at = 0; at + 1 < plan->n_ops; at++) {
        struct hd_op *mean = &plan->ops[at], *user = &plan->ops[at + 1];
        if (!mean_fits(plan, at) || !user_fits(plan, mean, user))
            continue;
        user->mean = mean;
        mean->lowering = HD_LOWERING_FUSED;
        user->lowering = HD_LOWERING_SHARDED_UPDATE;
        HD_TRY(make_labels(plan->graph, user));
        place_values(plan, mean, user);
    }
    return HD_OK;
}
