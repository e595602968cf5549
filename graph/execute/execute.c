/* SPDX-License-Identifier: Apache-2.0 */
/* Called by train, once a run; by eval, watch and record for what they play; by simulate, whose
 * recorder runs nothing. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit.h"

/* -- The walk ---------------------------------------------------------------------------------- */

static int run_step(struct hd_executor *executor, int at, bool *stopped_p)
{
    struct hd_binder *binder = &executor->binder;
    const struct hd_op *op = &binder->plan->ops[at];
    if (!hd_guards_is_step_due(binder, op))
        return HD_OK;
    HD_TRY(hd_binder_check_content(binder, op));
    hd_binder_rotate_writes(binder, op);
    HD_TRY(hd_transfer_reads(binder, op));
    if (op->lowering == HD_LOWERING_STOP)
        HD_TRY(hd_guards_check_stop(binder, op, stopped_p));
    else
        HD_TRY(hd_op_submit(binder, op, &executor->work_buffers[at]));
    if (*stopped_p) {
        executor->reason = op->step->reason;
        executor->stop_key = hd_guards_get_stop_key(binder, op);
        binder->place = at;
    }
    hd_binder_note_accesses(binder, op);
    hd_guards_note_step(binder, op);
    return HD_OK;
}

static int run_ops(struct hd_executor *executor, int begin, int end, bool *stopped_p);

/* Runs a pass of a repeat's body. Tasks on the GPU of several passes become one, as far as nothing
 * else is submitted in between. */
static int run_body(struct hd_executor *executor, int at, bool last, bool *stopped_p)
{
    struct hd_binder *binder = &executor->binder;
    const struct hd_op *op = &binder->plan->ops[at];
    if (op->fused[0])
        binder->fused_pass =
            hd_fuse_begin(binder->session, 1, op->fused) ? binder->fused_pass + 1 : 0;
    const int status = run_ops(executor, at + 1, op->end, stopped_p);
    const bool goes_on = status == HD_OK && !*stopped_p && !last;
    if (!op->fused[0] || (goes_on && binder->fused_pass + 1 < HD_FUSED_PASSES))
        return status;
    const int fused = hd_fuse_end(binder->session);
    return status != HD_OK ? status : fused;
}

static int run_repeat(struct hd_executor *executor, int at, bool *stopped_p)
{
    struct hd_binder *binder = &executor->binder;
    const struct hd_op *op = &binder->plan->ops[at];
    int64_t *index = &binder->repeat_index;
    const int64_t outer = *index;
    if (!hd_guards_is_repeat_due(binder, op))
        return HD_OK;
    for (int64_t i = 0; i < op->step->times && !*stopped_p; i++) {
        *index = outer * op->step->times + i;
        HD_TRY(run_body(executor, at, i + 1 == op->step->times, stopped_p));
    }
    *index = outer;
    return HD_OK;
}

/* Snapshots for a background step stand right before it. */
static const struct hd_op *find_step(const struct hd_plan *plan, int at)
{
    while (plan->ops[at].kind != HD_OP_STEP)
        at++;
    return &plan->ops[at];
}

static int run_op(struct hd_executor *executor, int at, bool *stopped_p)
{
    struct hd_binder *binder = &executor->binder;
    const struct hd_op *op = &binder->plan->ops[at];
    switch (op->kind) {
    case HD_OP_STEP:
        return run_step(executor, at, stopped_p);
    case HD_OP_REPEAT:
        return run_repeat(executor, at, stopped_p);
    case HD_OP_LAG_SNAPSHOT:
        return hd_snapshot_for_lag(binder, op->value);
    case HD_OP_BACKGROUND_SNAPSHOT:
        return hd_guards_is_step_due(binder, find_step(binder->plan, at))
                   ? hd_snapshot_for_background(binder, op->value)
                   : HD_OK;
    case HD_OP_COMPARE:
        return hd_guards_is_compare_due(binder, op) ? hd_op_submit_compare(binder, op) : HD_OK;
    }
    return HD_OK;
}

static int run_ops(struct hd_executor *executor, int begin, int end, bool *stopped_p)
{
    for (int at = begin; at < end && !*stopped_p;) {
        HD_TRY(run_op(executor, at, stopped_p));
        HD_TRY(hd_session_get_status(executor->binder.session));
        const struct hd_op *op = &executor->binder.plan->ops[at];
        at = op->kind == HD_OP_REPEAT ? op->end : at + 1;
    }
    return HD_OK;
}

static int apply_requests(struct hd_executor *executor)
{
    const struct hd_executor_options *options = &executor->options;
    if (!options->get_requests)
        return HD_OK;
    unsigned requests = options->get_requests(options->requests_arg);
    HD_TRY(hd_control_requests_reduce(executor, requests, &requests));
    return requests ? options->apply_requests(options->requests_arg, requests) : HD_OK;
}

/* Values that keep lagged versions in their rotation have no snapshot op: marks their start. */
static void start_rotations(struct hd_binder *binder)
{
    for (int i = 0; i < binder->plan->graph->n_values; i++)
        if (binder->plan->values[i].lag > 0 && binder->plan->values[i].lagged.buffers == 0)
            hd_instances_start_iteration(&binder->instances[i], hd_binder_get_iteration(binder));
}

static int start_iteration(struct hd_executor *executor)
{
    const struct hd_executor_options *options = &executor->options;
    struct hd_binder *binder = &executor->binder;
    HD_TRY(hd_binder_wait(binder, hd_binder_get_task_group(binder)));
    if (options->tick)
        options->tick(options->tick_arg);
    HD_TRY(apply_requests(executor));
    if (options->rebuild) {
        HD_TRY(hd_session_drain(binder->session));
        HD_TRY(hd_graph_rebuild(binder->plan->graph));
    }
    if (binder->place == 0)
        start_rotations(binder);
    return HD_OK;
}

/* Runs an iteration from its begin, or from the stop step at which a restored run goes on. */
static int run_iteration(struct hd_executor *executor, bool *stopped_p)
{
    struct hd_binder *binder = &executor->binder;
    const int begin = binder->place;
    HD_TRY(start_iteration(executor));
    binder->place = 0;
    return run_ops(executor, begin, binder->plan->n_ops, stopped_p);
}

static int save_at_stop(struct hd_executor *executor)
{
    const struct hd_executor_options *options = &executor->options;
    struct hd_binder *binder = &executor->binder;
    HD_TRY(hd_session_drain(binder->session));
    return options->save_at_stop && binder->place > 0 &&
                   hd_plan_can_resume_at(binder->plan, binder->place)
               ? options->save_at_stop(options->requests_arg)
               : HD_OK;
}

static int run_iterations(struct hd_executor *executor)
{
    struct hd_binder *binder = &executor->binder;
    const struct hd_plan *plan = binder->plan;
    bool stopped = false;
    for (; !stopped; binder->counters[0] += !stopped)
        HD_TRY(run_iteration(executor, &stopped));
    /* Updates since the last comparison are compared too. */
    for (int i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].kind == HD_OP_COMPARE)
            HD_TRY(hd_op_submit_compare(binder, &plan->ops[i]));
    HD_TRY(save_at_stop(executor));
    binder->place = 0; /* a further run begins with the next iteration */
    binder->counters[0]++;
    return HD_OK;
}

int hd_executor_run(struct hd_executor *executor, const char **reason_p)
{
    struct hd_session *session = executor->binder.session;
    int status = run_iterations(executor);
    /* A failure to submit ends the session as a failed task does; a signal is no failure: the run's
     * state has been saved, or the session knows of it. */
    if (status != HD_OK && !hd_status_is_stop(status))
        hd_session_fail(session, status, "iteration %lld cannot go on: %s",
                        (long long)hd_binder_get_iteration(&executor->binder),
                        hd_status_get_text(status));
    int drained = hd_session_drain(session);
    status = status != HD_OK ? status : drained;
    if (status == HD_OK)
        *reason_p = executor->reason;
    return status;
}

const char *hd_executor_get_stop_key(const struct hd_executor *executor)
{
    return executor->stop_key;
}

/* -- Making and releasing ---------------------------------------------------------------------- */

/* Lets the types of values and the verbs of steps prepare a GPU. */
static int prepare_gpu(const struct hd_binder *binder, int home)
{
    if (hd_session_get_options(binder->session)->recorder)
        return HD_OK;
    HD_TRY(hd_device_use(hd_session_get_options(binder->session)->devices[home - 1]));
    for (int i = 0; i < binder->plan->graph->n_values; i++) {
        const struct hd_spec *spec = &binder->plan->graph->values[i].spec;
        if (binder->plan->values[i].homes > 1 && spec->type->device)
            HD_TRY(spec->type->device->ready(spec));
    }
    for (int i = 0; i < binder->plan->n_ops; i++) {
        const struct hd_op *op = &binder->plan->ops[i];
        const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
        if (gpu && gpu->ready)
            HD_TRY(gpu->ready(op->step->args));
    }
    return HD_OK;
}

static int fill(struct hd_executor *executor, struct hd_plan *plan, struct hd_session *session)
{
    struct hd_binder *binder = &executor->binder;
    HD_TRY(hd_binder_create(plan, session, executor->options.window, binder));
    executor->work_buffers = hd_alloc(plan->n_ops, sizeof *executor->work_buffers);
    if (!executor->work_buffers)
        return HD_ERR_NOMEM;
    for (int i = 0; i < plan->n_ops; i++)
        HD_TRY(hd_work_buffers_create(binder, &plan->ops[i], &executor->work_buffers[i]));
    HD_TRY(hd_control_requests_create(executor));
    for (int home = 1; home <= plan->devices; home++)
        HD_TRY(prepare_gpu(binder, home));
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
    executor->options = *options;
    int status = fill(executor, plan, session);
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
    struct hd_binder *binder = &executor->binder;
    hd_session_drain(binder->session);
    hd_control_requests_destroy(executor);
    for (int i = 0; executor->work_buffers && i < binder->plan->n_ops; i++)
        hd_work_buffers_destroy(binder, &executor->work_buffers[i]);
    hd_free(executor->work_buffers);
    hd_binder_destroy(binder);
    hd_free(executor);
}

/* -- Values ------------------------------------------------------------------------------------ */

const void *hd_executor_get_data(struct hd_executor *executor, int value, int instance)
{
    const struct hd_instances *instances = &executor->binder.instances[value];
    if (instance >= instances->planned->instances)
        return NULL;
    struct hd_version_slot *slot = &instances->version_slots[instances->current];
    if (slot->replicas[0].version != slot->version &&
        (hd_transfer_version(&executor->binder, value, slot, 0) != HD_OK ||
         hd_session_drain(executor->binder.session) != HD_OK))
        return NULL;
    return slot->replicas[0].memory[instance].data;
}

void *hd_executor_get_writable(struct hd_executor *executor, int value, int instance)
{
    void *data = (void *)hd_executor_get_data(executor, value, instance);
    const struct hd_instances *instances = &executor->binder.instances[value];
    struct hd_version_slot *slot = &instances->version_slots[instances->current];
    for (int replica = 1; data && replica < instances->planned->homes; replica++)
        slot->replicas[replica].version = -1;
    return data;
}

int64_t hd_executor_get_version(const struct hd_executor *executor, int value)
{
    return executor->binder.instances[value].version;
}

int64_t hd_executor_get_counter(const struct hd_executor *executor, const char *name)
{
    const int counter = hd_graph_find_counter(executor->binder.plan->graph, name);
    return counter == HD_NO_COUNTER ? 0 : executor->binder.counters[counter];
}
