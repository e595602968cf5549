/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter for each step and each comparison of an iteration. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

/* -- Conditions -------------------------------------------------------------------------------- */

struct reading {
    const struct hd_binder *binder;
    const struct hd_step *step;
};

static double *get_fields(const struct hd_binder *binder, const struct hd_step *step)
{
    return binder->fields + step->index * binder->plan->graph->n_slots;
}

static bool read_slot(void *arg, int slot, double *value_p)
{
    const struct reading *reading = arg;
    const struct hd_binder *binder = reading->binder;
    const struct hd_slot *source = &binder->plan->graph->slots[slot];
    switch (source->kind) {
    case HD_SLOT_COUNTER:
        *value_p = (double)binder->counters[source->index];
        return true;
    case HD_SLOT_ATTRIBUTE:
        *value_p = (double)binder->attributes[source->value][source->index];
        return true;
    case HD_SLOT_FIELD:
        *value_p = get_fields(binder, reading->step)[slot];
        return !isnan(*value_p);
    }
    return false;
}

/* Returns whether a condition of a step holds. */
static bool holds(const struct hd_binder *binder, const struct hd_step *step,
                  const struct hd_expr *expr)
{
    struct reading reading = {binder, step};
    double value;
    return hd_expr_evaluate(expr, read_slot, &reading, &value) && value != 0;
}

bool hd_guards_is_repeat_due(const struct hd_binder *binder, const struct hd_op *op)
{
    return !op->step->when || holds(binder, op->step, op->step->when);
}

bool hd_guards_is_step_due(const struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    if (step->when && !holds(binder, step, step->when))
        return false;
    if (step->every > 0)
        return binder->counters[step->every_counter] >= binder->next_due[step->index];
    return !hd_step_runs_on_change(step) || hd_binder_has_fresh(binder, op);
}

bool hd_guards_is_compare_due(struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_plan *plan = binder->plan;
    const int64_t update = binder->counters[plan->update_counter];
    if (update < binder->next_compare)
        return false;
    if (op == &plan->ops[plan->n_ops - 1])
        binder->next_compare = update + plan->param_check_interval;
    return true;
}

static void count_attributes(struct hd_binder *binder, const struct hd_step *step)
{
    for (const struct hd_counted_attribute *count = step->verb->counted; count && count->attribute;
         count++) {
        const int value = step->refs[count->port].value;
        if (value == HD_NO_VALUE)
            continue;
        const struct hd_type *type = binder->plan->graph->values[value].spec.type;
        for (int i = 0; type->counted[i]; i++)
            if (strcmp(type->counted[i], count->attribute) == 0)
                binder->attributes[value][i] = count->next(step->args, binder->attributes[value]);
    }
}

void hd_guards_note_step(struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    int64_t *counters = binder->counters;
    count_attributes(binder, step);
    if (step->every > 0)
        binder->next_due[step->index] = counters[step->every_counter] + step->every;
    if (step->counts != HD_NO_COUNTER)
        counters[step->counts]++;
}

/* -- Stop -------------------------------------------------------------------------------------- */

static double look_at(const struct hd_view *view, int field)
{
    if (view->version == 0 && view->spec->type->none)
        return NAN;
    return view->spec->type->field(view->spec, view->data, field);
}

static int look_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct reading *reading = args;
    const struct hd_graph *graph = reading->binder->plan->graph;
    double *fields = get_fields(reading->binder, reading->step);
    const int *slots;
    int64_t n = hd_expr_get_slots(reading->step->condition, &slots);
    for (int64_t s = 0; s < n; s++)
        for (int i = 0; i < context->n_views; i++)
            if (graph->slots[slots[s]].kind == HD_SLOT_FIELD &&
                graph->slots[slots[s]].value == reading->step->refs[i].value)
                fields[slots[s]] = look_at(&views[i], graph->slots[slots[s]].index);
    return HD_OK;
}

static int look_at_fields(struct hd_binder *binder, const struct hd_op *op)
{
    const struct reading reading = {binder, op->step};
    struct hd_bound bound;
    struct hd_task task = hd_binder_make_task(binder, op, -1);
    task.body = look_body;
    task.args = &reading;
    task.accesses = bound.accesses;
    task.n_accesses = op->step->n_refs;
    task.priority = HD_PRIORITY_FIRST;
    task.group = &binder->stop_group;
    hd_binder_bind(binder, op, 0, 0, HD_HOST, &bound);
    memcpy(task.views, bound.views, (size_t)op->step->n_refs * sizeof *task.views);
    HD_TRY(hd_submit_task(binder->session, &task));
    int status = hd_binder_wait(binder, &binder->stop_group);
    if (status != HD_OK)
        hd_session_drain(binder->session); /* the task uses this frame */
    return status;
}

int hd_guards_check_stop(struct hd_binder *binder, const struct hd_op *op, bool *stopped_p)
{
    if (hd_binder_has_fresh(binder, op))
        HD_TRY(look_at_fields(binder, op));
    *stopped_p = holds(binder, op->step, op->step->condition);
    return HD_OK;
}

const char *hd_guards_get_stop_key(const struct hd_binder *binder, const struct hd_op *op)
{
    struct reading reading = {binder, op->step};
    return hd_expr_find_key(op->step->condition, read_slot, &reading);
}
