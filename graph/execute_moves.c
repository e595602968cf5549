/* SPDX-License-Identifier: Apache-2.0 */
/* Moves: tasks that bring a version to where it is read. Which there are follows from versions
 * alone, hence from what the submitter counts. A copy's dependences are its own: a move waits for
 * what made the version on one side and for the last readers on the other, and for nobody else. */
#include "graph/execute_internal.h"
#include "runtime/base/status.h"

static const bool to_gpu = true, to_host = false;

static int move_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct hd_spec *spec = views[0].spec;
    const struct hd_device_form *form = spec->type->device;
    HD_TRY(
        hd_device_copy(views[1].data, views[0].data, hd_value_common_bytes(spec), context->stream));
    if (args == &to_gpu && form && form->renew_on_gpu)
        HD_TRY(form->renew_on_gpu(spec, views[1].data, context->stream));
    return HD_OK;
}

static int renew_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    return views[0].spec->type->device->renew_on_host(views[0].spec, views[0].data);
}

static struct hd_task make_task(struct hd_executor *executor, int value, int instance)
{
    return (struct hd_task){
        .verb = "move",
        .name = executor->move_labels[value],
        .context =
            hd_executor_context(executor, NULL, executor->plan->values[value].first + instance),
        .priority = HD_PRIORITY_FIRST,
        .group = hd_executor_group(executor, false),
    };
}

static int submit_renewal(struct hd_executor *executor, int value, const struct hd_copies *host,
                          int instance)
{
    const struct hd_spec *spec = &executor->instances[value].value->spec;
    const struct hd_access access = {host->buffers[instance], HD_ALL_PARTS, HD_ALL_LEAVES,
                                     HD_UPDATE};
    struct hd_task task = make_task(executor, value, instance);
    task.body = renew_body;
    task.views[0] = (struct hd_view){.data = host->data[instance], .spec = spec};
    task.n = task.n_accesses = 1;
    task.accesses = &access;
    return hd_submit(executor->session, &task);
}

/* A GPU's own stream does it: the one that it comes to, or that it comes from. */
static int submit_move(struct hd_executor *executor, int value, const struct hd_row *row, int from,
                       int to, int instance)
{
    const struct hd_copies *source = &row->copies[from], *target = &row->copies[to];
    const struct hd_spec *spec = &executor->instances[value].value->spec;
    const struct hd_access accesses[] = {
        {source->buffers[instance], HD_ALL_PARTS, HD_ALL_LEAVES, HD_READ},
        {target->buffers[instance], HD_ALL_PARTS, HD_ALL_LEAVES, HD_WRITE}};
    struct hd_task task = make_task(executor, value, instance);
    task.home = hd_plan_home_of_copy(executor->plan, value, to > 0 ? to : from, instance);
    task.body = move_body;
    task.args = to > 0 ? &to_gpu : &to_host;
    task.views[0] = (struct hd_view){.data = source->data[instance], .spec = spec};
    task.views[1] = (struct hd_view){.data = target->data[instance], .spec = spec};
    task.n = task.n_accesses = 2;
    task.accesses = accesses;
    HD_TRY(hd_submit(executor->session, &task));
    if (to == 0 && spec->type->device && spec->type->device->renew_on_host)
        return submit_renewal(executor, value, target, instance);
    return HD_OK;
}

int hd_executor_bring(struct hd_executor *executor, int value, struct hd_row *row, int copy)
{
    const struct hd_plan_value *plan = executor->instances[value].plan;
    if (row->copies[copy].version == row->version)
        return HD_OK;
    int from = 0;
    while (row->copies[from].version != row->version)
        from++;
    for (int i = 0; i < plan->instances; i++)
        HD_TRY(submit_move(executor, value, row, from, copy, i));
    row->copies[copy].version = row->version;
    return HD_OK;
}

/* Whether tasks of the op run at a home, if they run on GPUs at all. */
static bool runs_at(const struct hd_executor *executor, const struct hd_op *op, int home)
{
    return home == 1 || op->step->placement == HD_SHARD ||
           executor->plan->graph->values[op->step->refs[0].value].spec.placement == HD_SHARD;
}

int hd_executor_bring_reads(struct hd_executor *executor, const struct hd_op *op)
{
    for (int i = 0; i < op->step->n_refs; i++) {
        const struct hd_ref *ref = &op->step->refs[i];
        if (ref->value == HD_NO_VALUE || ref->mode == HD_WRITE)
            continue;
        const struct hd_plan_value *value = &executor->plan->values[ref->value];
        struct hd_row *row = hd_executor_row(executor, op, i);
        if (value->homes == 1 || value->instances == 0)
            continue;
        if (hd_op_touches(op, i, false))
            HD_TRY(hd_executor_bring(executor, ref->value, row, 0));
        for (int copy = 1; copy < value->homes && hd_op_touches(op, i, true); copy++)
            if (runs_at(executor, op, copy))
                HD_TRY(hd_executor_bring(executor, ref->value, row, copy));
    }
    return HD_OK;
}

void hd_executor_note_write(struct hd_executor *executor, const struct hd_op *op, int i)
{
    const struct hd_plan_value *value = &executor->plan->values[op->step->refs[i].value];
    struct hd_row *row = hd_executor_row(executor, op, i);
    if (value->homes == 1 || hd_op_touches(op, i, false))
        row->copies[0].version = row->version;
    if (value->homes > 1 && hd_op_touches(op, i, true))
        row->copies[1].version = row->version;
}
