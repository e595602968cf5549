/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

/* -- Guards -------------------------------------------------------------------------------------
 */

static bool read_slot(const struct hd_executor *executor, const double *fields, int slot,
                      double *value_p)
{
    const struct hd_slot *source = &executor->plan->graph->slots[slot];
    switch (source->kind) {
    case HD_SLOT_COUNTER:
        *value_p = (double)executor->counters[source->index];
        return true;
    case HD_SLOT_ATTRIBUTE:
        *value_p = (double)executor->attributes[source->value][source->index];
        return true;
    case HD_SLOT_FIELD:
        *value_p = fields[slot];
        return !isnan(fields[slot]);
    }
    return false;
}

struct reading {
    const struct hd_executor *executor;
    const double *fields;
};

static bool read_any(void *arg, int slot, double *value_p)
{
    const struct reading *reading = arg;
    return read_slot(reading->executor, reading->fields, slot, value_p);
}

static bool holds(const struct hd_executor *executor, const struct hd_expr *expr,
                  const double *fields)
{
    struct reading reading = {executor, fields};
    double value;
    return hd_expr_evaluate(expr, read_any, &reading, &value) && value != 0;
}

static bool any_fresh(const struct hd_executor *executor, const struct hd_op *op)
{
    for (int i = 0; i < op->step->n_refs; i++)
        if (op->step->refs[i].value != HD_NO_VALUE && op->step->refs[i].mode == HD_READ &&
            hd_executor_is_fresh(executor, op, i))
            return true;
    return false;
}

/* Without `every` these run when something they read is new. */
static bool runs_on_change(const struct hd_step *step)
{
    return step->verb->kind == HD_VERB_COLLECTIVE || step->verb->kind == HD_VERB_BROADCAST ||
           step->verb->logs || step->verb->run_on_change;
}

static bool is_due(const struct hd_executor *executor, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    if (step->when && !holds(executor, step->when, NULL))
        return false;
    if (step->every > 0)
        return executor->counters[step->every_counter] >=
               executor->step_states[step->index].next_due;
    return !runs_on_change(step) || any_fresh(executor, op);
}

/* -- Stop ---------------------------------------------------------------------------------------
 */

struct look {
    const struct hd_executor *executor;
    const struct hd_step *step;
    double *fields;
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
    const struct hd_graph *graph = look->executor->plan->graph;
    const int *slots;
    int64_t n = hd_expr_get_slots(look->step->condition, &slots);
    for (int64_t s = 0; s < n; s++)
        for (int i = 0; i < context->n_views; i++)
            if (graph->slots[slots[s]].kind == HD_SLOT_FIELD &&
                graph->slots[slots[s]].value == look->step->refs[i].value)
                look->fields[slots[s]] = look_at(&views[i], graph->slots[slots[s]].index);
    return HD_OK;
}

static bool group_empty(void *arg)
{
    return atomic_load(&((struct hd_task_group *)arg)->pending) == 0;
}

static void remember_reads(struct hd_executor *executor, const struct hd_op *op)
{
    struct hd_step_state *state = &executor->step_states[op->step->index];
    for (int i = 0; i < op->step->n_refs; i++)
        if (op->step->refs[i].value != HD_NO_VALUE && op->step->refs[i].mode == HD_READ)
            state->last_read[i] = hd_executor_get_read_version(executor, op, i);
}

/* Looks at what is new and waits for it; then decides as every rank does. */
static int run_stop(struct hd_executor *executor, const struct hd_op *op, bool *stopped_p)
{
    const struct hd_step *step = op->step;
    struct hd_step_state *state = &executor->step_states[step->index];
    if (any_fresh(executor, op)) {
        struct look look = {executor, step, state->fields};
        struct hd_access accesses[HD_PORTS_MAX];
        struct hd_task task = {.verb = step->verb->name,
                               .name = step->label,
                               .body = look_body,
                               .args = &look,
                               .context = hd_executor_make_context(executor, step, -1),
                               .n = step->n_refs,
                               .accesses = accesses,
                               .n_accesses = step->n_refs,
                               .priority = HD_PRIORITY_FIRST,
                               .group = &executor->stop_group};
        for (int i = 0; i < step->n_refs; i++)
            hd_executor_make_view(executor, op, i, 0, 0, &task, &accesses[i]);
        HD_TRY(hd_submit_task(executor->session, &task));
        int status = hd_session_wait(executor->session, group_empty, &executor->stop_group);
        if (status != HD_OK) {
            hd_session_drain(executor->session); /* the task looks at this frame */
            return status;
        }
    }
    *stopped_p = holds(executor, step->condition, state->fields);
    if (*stopped_p)
        executor->reason = step->reason;
    return HD_OK;
}

/* -- The walk -----------------------------------------------------------------------------------
 */

static void rotate_writes(struct hd_executor *executor, const struct hd_step *step)
{
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode == HD_WRITE)
            hd_instances_rotate(&executor->instances[step->refs[i].value],
                                hd_executor_get_iteration(executor));
}

static void count_versions(struct hd_executor *executor, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    for (int i = 0; i < step->n_refs; i++)
        if (hd_ref_changes(&step->refs[i])) {
            struct hd_instances *instances = &executor->instances[step->refs[i].value];
            instances->version_slots[instances->current].version = ++instances->version;
            hd_executor_note_write(executor, op, i);
        }
}

static void count_attributes(struct hd_executor *executor, const struct hd_step *step)
{
    for (const struct hd_counted_attribute *count = step->verb->counted; count && count->attribute;
         count++) {
        int value = step->refs[count->port].value;
        if (value == HD_NO_VALUE)
            continue;
        const struct hd_type *type = executor->plan->graph->values[value].spec.type;
        for (int i = 0; type->counted[i]; i++)
            if (strcmp(type->counted[i], count->attribute) == 0)
                executor->attributes[value][i] =
                    count->next(step->args, executor->attributes[value]);
    }
}

static int run_step(struct hd_executor *executor, const struct hd_op *op, bool *stopped_p)
{
    const struct hd_step *step = op->step;
    if (!is_due(executor, op))
        return HD_OK;
    rotate_writes(executor, step);
    HD_TRY(hd_executor_transfer_reads(executor, op));
    if (step->verb->kind == HD_VERB_STOP)
        HD_TRY(run_stop(executor, op, stopped_p));
    else if (op->mean)
        HD_TRY(hd_executor_submit_sharded_update(executor, op));
    else if (step->verb->kind == HD_VERB_TASK)
        HD_TRY(hd_executor_submit_task(executor, op));
    else if (!op->sharded_update)
        HD_TRY(hd_executor_submit_collective(executor, op));
    remember_reads(executor, op);
    count_versions(executor, op);
    count_attributes(executor, step);
    if (step->every > 0)
        executor->step_states[step->index].next_due =
            executor->counters[step->every_counter] + step->every;
    if (step->counts != HD_NO_COUNTER)
        executor->counters[step->counts]++;
    return HD_OK;
}

static int run_compare(struct hd_executor *executor, const struct hd_op *op)
{
    const struct hd_plan *plan = executor->plan;
    if (executor->counters[plan->update_counter] < executor->next_compare)
        return HD_OK;
    if (op == &plan->ops[plan->n_ops - 1])
        executor->next_compare =
            executor->counters[plan->update_counter] + plan->param_check_interval;
    return hd_executor_submit_compare(executor, op->value);
}

static int run_ops(struct hd_executor *executor, int begin, int end, bool *stopped_p);

static int run_repeat(struct hd_executor *executor, int at, bool *stopped_p)
{
    const struct hd_op *op = &executor->plan->ops[at];
    int64_t outer = executor->repeat_index;
    if (op->step->when && !holds(executor, op->step->when, NULL))
        return HD_OK;
    for (int64_t i = 0; i < op->step->times && !*stopped_p; i++) {
        executor->repeat_index = outer * op->step->times + i;
        HD_TRY(run_ops(executor, at + 1, op->end, stopped_p));
    }
    executor->repeat_index = outer;
    return HD_OK;
}

static int run_op(struct hd_executor *executor, int at, bool *stopped_p)
{
    const struct hd_op *op = &executor->plan->ops[at];
    struct hd_version_slot *slot;
    switch (op->kind) {
    case HD_OP_STEP:
        return run_step(executor, op, stopped_p);
    case HD_OP_REPEAT:
        return run_repeat(executor, at, stopped_p);
    case HD_OP_LAG_SNAPSHOT:
        slot = hd_instances_start_iteration(&executor->instances[op->value],
                                            hd_executor_get_iteration(executor));
        return slot ? hd_executor_submit_snapshot(executor, op->value, slot, false) : HD_OK;
    case HD_OP_BACKGROUND_SNAPSHOT: {
        int next = at + 1;
        while (executor->plan->ops[next].kind != HD_OP_STEP)
            next++;
        if (!is_due(executor, &executor->plan->ops[next]))
            return HD_OK;
        slot = hd_instances_start_background(&executor->instances[op->value]);
        return slot ? hd_executor_submit_snapshot(executor, op->value, slot, true) : HD_OK;
    }
    case HD_OP_COMPARE:
        return run_compare(executor, op);
    }
    return HD_OK;
}

static int run_ops(struct hd_executor *executor, int begin, int end, bool *stopped_p)
{
    for (int at = begin; at < end && !*stopped_p;) {
        HD_TRY(run_op(executor, at, stopped_p));
        HD_TRY(hd_session_get_status(executor->session));
        const struct hd_op *op = &executor->plan->ops[at];
        at = op->kind == HD_OP_REPEAT ? op->end : at + 1;
    }
    return HD_OK;
}

/* Values that keep lagged versions in their rotation have no snapshot op: mark their start here. */
static void start_iteration(struct hd_executor *executor)
{
    for (int i = 0; i < executor->plan->graph->n_values; i++)
        if (executor->plan->values[i].lag > 0 && executor->plan->values[i].lag_snapshots == 0)
            hd_instances_start_iteration(&executor->instances[i],
                                         hd_executor_get_iteration(executor));
}

static int run_iterations(struct hd_executor *executor)
{
    const struct hd_executor_options *options = &executor->options;
    bool stopped = false;
    for (; !stopped; executor->counters[0]++) {
        HD_TRY(hd_session_wait(executor->session, group_empty,
                               hd_executor_get_task_group(executor, false)));
        if (options->tick)
            options->tick(options->tick_arg);
        HD_TRY(hd_executor_apply_requests(executor));
        if (options->rebuild) {
            HD_TRY(hd_session_drain(executor->session));
            HD_TRY(hd_graph_rebuild(executor->plan->graph));
        }
        start_iteration(executor);
        HD_TRY(run_ops(executor, 0, executor->plan->n_ops, &stopped));
    }
    /* What the last comparison has not seen. */
    for (int i = 0; i < executor->plan->n_ops; i++)
        if (executor->plan->ops[i].kind == HD_OP_COMPARE)
            HD_TRY(hd_executor_submit_compare(executor, executor->plan->ops[i].value));
    return HD_OK;
}

int hd_executor_run(struct hd_executor *executor, const char **reason_p)
{
    int status = run_iterations(executor);
    /* What could not be submitted ends the run as what failed does; who stops it has saved it. */
    if (status != HD_OK && status != HD_ERR_STOPPED)
        hd_session_fail(executor->session, status, "iteration %lld cannot go on: %s",
                        (long long)hd_executor_get_iteration(executor), hd_status_get_text(status));
    int drained = hd_session_drain(executor->session);
    status = status != HD_OK ? status : drained;
    if (status == HD_OK)
        *reason_p = executor->reason;
    return status;
}

/* -- Making and releasing -----------------------------------------------------------------------
 */

static int make_step_state(struct hd_step *step, void *arg)
{
    struct hd_executor *executor = arg;
    struct hd_step_state *state = &executor->step_states[step->index];
    state->next_due = step->first;
    if (!step->condition)
        return HD_OK;
    /* It has seen nothing yet, not even initial versions. */
    for (int i = 0; i < HD_PORTS_MAX; i++)
        state->last_read[i] = -1;
    int n = executor->plan->graph->n_slots;
    state->fields = hd_alloc(n, sizeof *state->fields);
    if (!state->fields)
        return HD_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        state->fields[i] = NAN;
    return HD_OK;
}

static int make_instances(struct hd_executor *executor)
{
    const struct hd_graph *graph = executor->plan->graph;
    for (int i = 0; i < graph->n_values; i++) {
        const struct hd_graph_value *value = &graph->values[i];
        const struct hd_instances *first = NULL;
        for (int j = 0; j < i; j++)
            if (&graph->values[j].spec == value->spec.init)
                first = &executor->instances[j];
        snprintf(executor->snapshot_labels[i], HD_LABEL_BYTES, "snapshot %s", value->spec.name);
        snprintf(executor->compare_labels[i], HD_LABEL_BYTES, "compare %s", value->spec.name);
        snprintf(executor->transfer_labels[i], HD_LABEL_BYTES, "transfer %s", value->spec.name);
        HD_TRY(hd_instances_create(executor->session, &executor->setup, executor->plan, i, first,
                                   &executor->instances[i]));
    }
    return HD_OK;
}

/* What values and bodies need on a GPU, once. */
static int make_ready(struct hd_executor *executor, int home)
{
    HD_TRY(hd_device_use(hd_session_get_device(executor->session, home)));
    for (int i = 0; i < executor->plan->graph->n_values; i++) {
        const struct hd_spec *spec = &executor->plan->graph->values[i].spec;
        if (executor->plan->values[i].homes > 1 && spec->type->device)
            HD_TRY(spec->type->device->ready(spec));
    }
    for (int i = 0; i < executor->plan->n_ops; i++) {
        const struct hd_op *op = &executor->plan->ops[i];
        const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
        if (gpu && gpu->ready)
            HD_TRY(gpu->ready(op->step->args));
    }
    return HD_OK;
}

static int fill(struct hd_executor *executor)
{
    struct hd_graph *graph = executor->plan->graph;
    executor->setup =
        (struct hd_setup){.config = graph->config, .shards = graph->shards, .seed = graph->seed};
    executor->instances = hd_alloc(graph->n_values, sizeof *executor->instances);
    executor->attributes = hd_alloc(graph->n_values, sizeof *executor->attributes);
    executor->counters = hd_alloc(graph->n_counters, sizeof *executor->counters);
    executor->step_states = hd_alloc(graph->total_steps, sizeof *executor->step_states);
    executor->work_buffers = hd_alloc(graph->total_steps, sizeof *executor->work_buffers);
    executor->sharded_update_labels =
        hd_alloc(graph->total_steps, sizeof *executor->sharded_update_labels);
    executor->snapshot_labels = hd_alloc(graph->n_values, HD_LABEL_BYTES);
    executor->compare_labels = hd_alloc(graph->n_values, HD_LABEL_BYTES);
    executor->transfer_labels = hd_alloc(graph->n_values, HD_LABEL_BYTES);
    if (!executor->instances || !executor->attributes || !executor->counters ||
        !executor->step_states || !executor->work_buffers || !executor->sharded_update_labels ||
        !executor->snapshot_labels || !executor->compare_labels || !executor->transfer_labels)
        return HD_ERR_NOMEM;
    executor->next_compare = executor->plan->param_check_interval;
    HD_TRY(hd_graph_walk(graph, make_step_state, executor));
    for (int i = 0; i < executor->plan->n_ops; i++) {
        HD_TRY(hd_work_buffers_create(executor, &executor->plan->ops[i]));
        HD_TRY(hd_sharded_update_make_labels(executor, &executor->plan->ops[i]));
    }
    HD_TRY(make_instances(executor));
    HD_TRY(hd_control_requests_create(executor));
    for (int home = 1; home <= executor->plan->devices; home++)
        HD_TRY(make_ready(executor, home));
    return HD_OK;
}

int hd_executor_create(struct hd_plan *plan, struct hd_session *session,
                       const struct hd_executor_options *options, struct hd_executor **executor_p)
{
    if (options->window < 1 || options->window > HD_WINDOW_MAX)
        return hd_fail(HD_ERR_INPUT, "runtime.max_inflight_iterations: expected 1 to %d, found %d",
                       HD_WINDOW_MAX, options->window);
    struct hd_executor *executor = hd_alloc(1, sizeof *executor);
    if (!executor)
        return HD_ERR_NOMEM;
    executor->plan = plan;
    executor->session = session;
    executor->options = *options;
    int status = fill(executor);
    if (status != HD_OK) {
        hd_executor_destroy(executor);
        return status;
    }
    *executor_p = executor;
    return HD_OK;
}

void hd_executor_destroy(struct hd_executor *executor)
{
    if (!executor)
        return;
    hd_session_drain(executor->session);
    hd_control_requests_destroy(executor);
    for (int i = 0; executor->instances && i < executor->plan->graph->n_values; i++)
        hd_instances_destroy(executor->session, &executor->instances[i]);
    for (int i = 0; executor->step_states && i < executor->plan->graph->total_steps; i++)
        hd_free(executor->step_states[i].fields);
    for (int i = 0; executor->work_buffers && i < executor->plan->graph->total_steps; i++)
        hd_work_buffers_destroy(executor, &executor->work_buffers[i]);
    hd_free(executor->instances);
    hd_free(executor->attributes);
    hd_free(executor->counters);
    hd_free(executor->step_states);
    hd_free(executor->work_buffers);
    hd_free(executor->sharded_update_labels);
    hd_free(executor->accesses);
    hd_free(executor->snapshot_labels);
    hd_free(executor->compare_labels);
    hd_free(executor->transfer_labels);
    hd_free(executor);
}

/* -- Looking in ---------------------------------------------------------------------------------
 */

const void *hd_executor_get_data(struct hd_executor *executor, int value, int instance)
{
    const struct hd_instances *instances = &executor->instances[value];
    if (instance >= instances->plan->instances)
        return NULL;
    struct hd_version_slot *slot = &instances->version_slots[instances->current];
    if (slot->replicas[0].version != slot->version &&
        (hd_executor_transfer(executor, value, slot, 0) != HD_OK ||
         hd_session_drain(executor->session) != HD_OK))
        return NULL;
    return slot->replicas[0].data[instance];
}

void *hd_executor_get_writable(struct hd_executor *executor, int value, int instance)
{
    void *data = (void *)hd_executor_get_data(executor, value, instance);
    const struct hd_instances *instances = &executor->instances[value];
    struct hd_version_slot *slot = &instances->version_slots[instances->current];
    slot->distributed_version = -1;
    for (int replica = 1; data && replica < instances->plan->homes; replica++)
        slot->replicas[replica].version = -1;
    return data;
}

int64_t hd_executor_get_version(const struct hd_executor *executor, int value)
{
    return executor->instances[value].version;
}

int64_t hd_executor_get_counter(const struct hd_executor *executor, const char *name)
{
    const struct hd_graph *graph = executor->plan->graph;
    for (int i = 0; i < graph->n_counters; i++)
        if (strcmp(graph->counters[i], name) == 0)
            return executor->counters[i];
    return 0;
}
