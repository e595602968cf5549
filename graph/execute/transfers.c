/* SPDX-License-Identifier: Apache-2.0 */
/* Submits the tasks that copy a version to the replica that is to be read. Which are needed follows
 * from versions alone, hence from what the submitter counts. Each replica has buffers of its own: a
 * transfer waits for the tasks that made the version on one side, for the last readers on the
 * other, and for nobody else. */
#include "graph/execute/transfers.h"

#include "graph/execute/bind.h"
#include "runtime/base/status.h"

static int copy_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    return hd_device_copy(views[1].data, views[0].data, hd_value_get_common_bytes(views[0].spec),
                          context->stream);
}

static int renew_on_gpu_body(struct hd_context *context, const struct hd_view *views,
                             const void *args)
{
    (void)args;
    const struct hd_spec *spec = views[0].spec;
    return spec->type->device->renew_on_gpu(spec, views[0].data, 0, spec->elements,
                                            context->stream);
}

static int renew_on_host_body(struct hd_context *context, const struct hd_view *views,
                              const void *args)
{
    (void)context, (void)args;
    return views[0].spec->type->device->renew_on_host(views[0].spec, views[0].data);
}

static struct hd_task make_task(struct hd_binder *binder, int value, int instance)
{
    return (struct hd_task){
        .verb = "transfer",
        .name = binder->plan->values[value].transfer_label,
        .context =
            hd_binder_make_context(binder, NULL, binder->plan->values[value].first + instance),
        .priority = HD_PRIORITY_FIRST,
        .group = hd_binder_get_task_group(binder),
    };
}

/* Makes anew what a type derives on one side from the bytes that both sides share, after an
 * instance's replica `to` has changed. */
static int submit_renewal(struct hd_binder *binder, int value, const struct hd_version_slot *slot,
                          int to, int instance)
{
    const struct hd_spec *spec = &binder->instances[value].value->spec;
    const struct hd_device_form *form = spec->type->device;
    const struct hd_replica *memory = &slot->replicas[to];
    const struct hd_access access = {memory->buffers[instance], HD_ALL_BUCKETS, HD_ALL_PARTIALS,
                                     HD_UPDATE};
    if (!form || (to > 0 && !form->renew_on_gpu) || (to == 0 && !form->renew_on_host))
        return HD_OK;
    struct hd_task task = make_task(binder, value, instance);
    if (to > 0)
        task.home = hd_plan_get_replica_home(binder->plan, value, to, instance);
    task.body = to > 0 ? renew_on_gpu_body : renew_on_host_body;
    task.views[0] = (struct hd_view){.data = memory->data[instance], .spec = spec};
    task.n = task.n_accesses = 1;
    task.accesses = &access;
    task.volume = 2 * hd_value_get_common_bytes(spec);
    return hd_submit_task(binder->session, &task);
}

/* Copies an instance on the stream of the GPU that it comes to or, on its way to the host, comes
 * from. The host's replica is pinned, but for values that live on GPUs alone: only checkpoints copy
 * these, whose submitter waits for everything anyway. */
static int submit_copy(struct hd_binder *binder, int value, const struct hd_version_slot *slot,
                       int from, int to, int instance)
{
    const struct hd_replica *source = &slot->replicas[from], *target = &slot->replicas[to];
    const struct hd_spec *spec = &binder->instances[value].value->spec;
    const struct hd_access accesses[] = {
        {source->buffers[instance], HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_READ},
        {target->buffers[instance], HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_WRITE}};
    struct hd_task task = make_task(binder, value, instance);
    task.home = hd_plan_get_replica_home(binder->plan, value, to > 0 ? to : from, instance);
    task.body = copy_body;
    task.views[0] = (struct hd_view){.data = source->data[instance], .spec = spec};
    task.views[1] = (struct hd_view){.data = target->data[instance], .spec = spec};
    task.n = task.n_accesses = 2;
    task.accesses = accesses;
    task.volume = 2 * hd_value_get_common_bytes(spec);
    return hd_submit_task(binder->session, &task);
}

int hd_transfer_version(struct hd_binder *binder, int value, struct hd_version_slot *slot,
                        int replica)
{
    int from = 0;
    if (slot->replicas[replica].version == slot->version)
        return HD_OK;
    while (slot->replicas[from].version != slot->version)
        from++;
    for (int i = 0; i < binder->instances[value].planned->instances; i++) {
        HD_TRY(submit_copy(binder, value, slot, from, replica, i));
        HD_TRY(submit_renewal(binder, value, slot, replica, i));
    }
    slot->replicas[replica].version = slot->version;
    return HD_OK;
}

/* Returns whether tasks of the op run at a home, given that they run on GPUs. */
static bool runs_at(const struct hd_binder *binder, const struct hd_op *op, int home)
{
    return home == 1 || op->step->placement == HD_SHARD ||
           binder->plan->graph->values[op->step->refs[0].value].spec.placement == HD_SHARD;
}

int hd_transfer_reads(struct hd_binder *binder, const struct hd_op *op)
{
    for (int i = 0; i < op->step->n_refs; i++) {
        const struct hd_ref *ref = &op->step->refs[i];
        if (ref->value == HD_NO_VALUE || ref->mode == HD_WRITE)
            continue;
        const struct hd_plan_value *value = &binder->plan->values[ref->value];
        struct hd_version_slot *slot = hd_binder_get_slot(binder, op, i);
        if (value->homes == 1 || value->instances == 0)
            continue;
        if (hd_op_touches(op, i, false))
            HD_TRY(hd_transfer_version(binder, ref->value, slot, 0));
        for (int replica = 1; replica < value->homes && hd_op_touches(op, i, true); replica++)
            if (runs_at(binder, op, replica))
                HD_TRY(hd_transfer_version(binder, ref->value, slot, replica));
    }
    return HD_OK;
}
