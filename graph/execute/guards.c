/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter for each step and each comparison of an iteration. */
#include "graph/execute/guards.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

static int init_step(struct hd_guards *guards, const struct hd_step *step)
{
    guards->next_due[step->index] = step->first;
    if (!step->condition)
        return HD_OK;
    const int n = guards->binder->plan->graph->n_slots;
    double *fields = guards->fields[step->index] = hd_alloc(n, sizeof *fields);
    if (!fields)
        return HD_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        fields[i] = NAN;
    return HD_OK;
}

int hd_guards_create(struct hd_binder *binder, struct hd_guards *guards)
{
    const struct hd_graph *graph = binder->plan->graph;
    guards->binder = binder;
    guards->next_compare = binder->plan->param_check_interval;
    guards->attributes = hd_alloc(graph->n_values, sizeof *guards->attributes);
    guards->next_due = hd_alloc(graph->total_steps, sizeof *guards->next_due);
    guards->fields = hd_alloc(graph->total_steps, sizeof(double *));
    if (!guards->attributes || !guards->next_due || !guards->fields)
        return HD_ERR_NOMEM;
    for (int i = 0; i < graph->total_steps; i++)
        HD_TRY(init_step(guards, graph->all_steps[i]));
    return HD_OK;
}

void hd_guards_destroy(struct hd_guards *guards)
{
    for (int i = 0; guards->fields && i < guards->binder->plan->graph->total_steps; i++)
        hd_free(guards->fields[i]);
    hd_free(guards->attributes);
    hd_free(guards->next_due);
    hd_free(guards->fields);
}

/* -- Conditions -------------------------------------------------------------------------------- */

struct reading {
    const struct hd_guards *guards;
    const double *fields; /* of a stop step; `when` reads none */
};

static bool read_slot(void *arg, int slot, double *value_p)
{
    const struct reading *reading = arg;
    const struct hd_guards *guards = reading->guards;
    const struct hd_slot *source = &guards->binder->plan->graph->slots[slot];
    switch (source->kind) {
    case HD_SLOT_COUNTER:
        *value_p = (double)guards->binder->counters[source->index];
        return true;
    case HD_SLOT_ATTRIBUTE:
        *value_p = (double)guards->attributes[source->value][source->index];
        return true;
    case HD_SLOT_FIELD:
        *value_p = reading->fields[slot];
        return !isnan(*value_p);
    }
    return false;
}

static bool holds(const struct hd_guards *guards, const struct hd_expr *expr, const double *fields)
{
    struct reading reading = {guards, fields};
    double value;
    return hd_expr_evaluate(expr, read_slot, &reading, &value) && value != 0;
}

bool hd_guards_is_repeat_due(const struct hd_guards *guards, const struct hd_op *op)
{
    return !op->step->when || holds(guards, op->step->when, NULL);
}

bool hd_guards_is_step_due(const struct hd_guards *guards, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    if (step->when && !holds(guards, step->when, NULL))
        return false;
    if (step->every > 0)
        return guards->binder->counters[step->every_counter] >= guards->next_due[step->index];
    return !hd_step_runs_on_change(step) || hd_binder_has_fresh(guards->binder, op);
}

bool hd_guards_is_compare_due(struct hd_guards *guards, const struct hd_op *op)
{
    const struct hd_plan *plan = guards->binder->plan;
    const int64_t update = guards->binder->counters[plan->update_counter];
    if (update < guards->next_compare)
        return false;
    if (op == &plan->ops[plan->n_ops - 1])
        guards->next_compare = update + plan->param_check_interval;
    return true;
}

static void count_attributes(struct hd_guards *guards, const struct hd_step *step)
{
    for (const struct hd_counted_attribute *count = step->verb->counted; count && count->attribute;
         count++) {
        const int value = step->refs[count->port].value;
        if (value == HD_NO_VALUE)
            continue;
        const struct hd_type *type = guards->binder->plan->graph->values[value].spec.type;
        for (int i = 0; type->counted[i]; i++)
            if (strcmp(type->counted[i], count->attribute) == 0)
                guards->attributes[value][i] = count->next(step->args, guards->attributes[value]);
    }
}

void hd_guards_note_step(struct hd_guards *guards, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    int64_t *counters = guards->binder->counters;
    count_attributes(guards, step);
    if (step->every > 0)
        guards->next_due[step->index] = counters[step->every_counter] + step->every;
    if (step->counts != HD_NO_COUNTER)
        counters[step->counts]++;
}

/* -- Stop -------------------------------------------------------------------------------------- */

struct look {
    const struct hd_graph *graph;
    const struct hd_step *step;
    double *fields; /* [slots] */
};

static double look_at(const struct hd_view *view, int field)
{
    if (view->version == 0 && view->spec->type->none)
        return NAN;
    return view->spec->type->field(view->spec, view->data, field);
}

static int look_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct look *look = args;
    const struct hd_graph *graph = look->graph;
    const int *slots;
    int64_t n = hd_expr_get_slots(look->step->condition, &slots);
    for (int64_t s = 0; s < n; s++)
        for (int i = 0; i < context->n_views; i++)
            if (graph->slots[slots[s]].kind == HD_SLOT_FIELD &&
                graph->slots[slots[s]].value == look->step->refs[i].value)
                look->fields[slots[s]] = look_at(&views[i], graph->slots[slots[s]].index);
    return HD_OK;
}

static int look_at_fields(struct hd_guards *guards, const struct hd_op *op)
{
    struct hd_binder *binder = guards->binder;
    const struct hd_step *step = op->step;
    struct look look = {binder->plan->graph, step, guards->fields[step->index]};
    struct hd_bound bound;
    struct hd_task task = {.verb = step->verb->name,
                           .name = step->label,
                           .body = look_body,
                           .args = &look,
                           .context = hd_binder_make_context(binder, step, -1),
                           .n = step->n_refs,
                           .accesses = bound.accesses,
                           .n_accesses = step->n_refs,
                           .priority = HD_PRIORITY_FIRST,
                           .group = &guards->stop_group};
    hd_binder_bind(binder, op, 0, 0, HD_HOST, &bound);
    memcpy(task.views, bound.views, (size_t)step->n_refs * sizeof *task.views);
    HD_TRY(hd_submit_task(binder->session, &task));
    int status = hd_binder_wait(binder, &guards->stop_group);
    if (status != HD_OK)
        hd_session_drain(binder->session); /* the task uses this frame */
    return status;
}

int hd_guards_check_stop(struct hd_guards *guards, const struct hd_op *op, bool *stopped_p)
{
    if (hd_binder_has_fresh(guards->binder, op))
        HD_TRY(look_at_fields(guards, op));
    *stopped_p = holds(guards, op->step->condition, guards->fields[op->step->index]);
    return HD_OK;
}

const char *hd_guards_get_stop_key(const struct hd_guards *guards, const struct hd_op *op)
{
    struct reading reading = {guards, guards->fields[op->step->index]};
    return hd_expr_find_key(op->step->condition, read_slot, &reading);
}
