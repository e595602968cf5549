/* SPDX-License-Identifier: Apache-2.0 */
/* The transfers that are needed follow from versions alone, hence from what the submitter counts.
 * Each replica has buffers of its own: a transfer waits for the tasks that made the version on one
 * side, for the last readers on the other, and for nobody else. Snapshots are where the plan has
 * them: once an iteration for lagged readers, and before each background step that is due. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/status.h"

/* -- Tasks: views[0] is what they make, views[1] what they copy -------------------------------- */

static int transfer_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    return hd_device_copy(views[0].data, views[1].data, hd_value_get_common_bytes(views[0].spec),
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

static int copy_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    return hd_value_snapshot(views[0].spec, views[0].data, views[1].data);
}

static int copy_on_gpu_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)args;
    return hd_device_copy(views[0].data, views[1].data, hd_value_get_device_bytes(views[0].spec),
                          context->stream);
}

static int copy_bucket_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)context, (void)args;
    int64_t lo, hi;
    hd_spec_get_bucket(views[0].spec, views[0].bucket, &lo, &hi);
    return hd_value_copy_range(views[0].spec, lo, hi, views[0].data, views[1].data);
}

/* A task makes an instance in `to` from that in `from`, or anew from itself, on the GPU of replica
 * `gpu`, or with 0 on the host. */
struct copy {
    const struct hd_replica *from, *to;
    int value, instance, gpu;
    int bucket; /* or HD_ALL_BUCKETS */
};

/* Completes a task that says by which function, and as what it is told. */
static int submit(struct hd_binder *binder, struct hd_task task, const struct copy *copy)
{
    const struct hd_replica *from = copy->from, *to = copy->to;
    const int i = copy->instance, bucket = copy->bucket == HD_ALL_BUCKETS ? 0 : copy->bucket;
    const struct hd_spec *spec = &binder->plan->graph->values[copy->value].spec;
    const struct hd_access accesses[] = {
        {to->memory[i].buffer, copy->bucket, HD_ALL_PARTIALS, from ? HD_WRITE : HD_UPDATE},
        {from ? from->memory[i].buffer : NULL, copy->bucket, HD_ALL_PARTIALS, HD_READ}};
    task.context =
        hd_binder_make_context(binder, NULL, binder->plan->values[copy->value].first + i);
    if (copy->gpu > 0)
        task.home = hd_plan_get_replica_home(binder->plan, copy->value, copy->gpu, i);
    task.views[0] = (struct hd_view){.data = to->memory[i].data, .spec = spec, .bucket = bucket};
    if (from)
        task.views[1] =
            (struct hd_view){.data = from->memory[i].data, .spec = spec, .bucket = bucket};
    task.n = task.n_accesses = from ? 2 : 1;
    task.accesses = accesses;
    return hd_submit_task(binder->session, &task);
}

/* -- Transfers --------------------------------------------------------------------------------- */

/* Copies an instance on the stream of the GPU that it comes to or, on its way to the host, comes
 * from; then makes anew what its type derives on one side from the bytes that both sides share. The
 * host's replica is pinned, but for values that live on GPUs alone: only checkpoints copy these,
 * whose submitter waits for everything anyway. */
static int submit_transfer(struct hd_binder *binder, int value, const struct hd_version_slot *slot,
                           int from, int to, int instance)
{
    const struct hd_spec *spec = &binder->plan->graph->values[value].spec;
    const struct hd_device_form *form = spec->type->device;
    struct hd_task task = {.verb = "transfer",
                           .name = binder->plan->values[value].transfer_label,
                           .body = transfer_body,
                           .priority = HD_PRIORITY_FIRST,
                           .group = hd_binder_get_task_group(binder),
                           .volume = 2 * hd_value_get_common_bytes(spec)};
    struct copy copy = {&slot->replicas[from], &slot->replicas[to], value, instance,
                        to > 0 ? to : from,    HD_ALL_BUCKETS};
    HD_TRY(submit(binder, task, &copy));
    if (!form || (to > 0 ? !form->renew_on_gpu : !form->renew_on_host))
        return HD_OK;
    task.body = to > 0 ? renew_on_gpu_body : renew_on_host_body;
    copy.from = NULL;
    copy.gpu = to;
    return submit(binder, task, &copy);
}

int hd_transfer_version(struct hd_binder *binder, int value, struct hd_version_slot *slot,
                        int replica)
{
    int from = 0;
    if (slot->replicas[replica].version == slot->version)
        return HD_OK;
    while (slot->replicas[from].version != slot->version)
        from++;
    for (int i = 0; i < binder->plan->values[value].instances; i++)
        HD_TRY(submit_transfer(binder, value, slot, from, replica, i));
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

/* -- Snapshots --------------------------------------------------------------------------------- */

/* Makes the copy on the side of its readers; if they are on both, on the GPU, from where it is
 * transferred. Types that know how to copy a range are copied bucket by bucket: a bucket is copied
 * as soon as it is done, and nobody who changes another bucket waits. */
static int submit_snapshot(struct hd_binder *binder, int value, struct hd_version_slot *to,
                           bool background)
{
    const struct hd_instances *instances = &binder->instances[value];
    const struct hd_plan_value *planned = instances->planned;
    const struct hd_spec *spec = &instances->value->spec;
    struct hd_version_slot *from = &instances->version_slots[instances->current];
    const int replica =
        planned->homes > 1 && (background ? planned->background.on_gpu : planned->lagged.on_gpu);
    const bool by_bucket = spec->buckets > 1 && spec->type->copy_range && replica == 0;
    const struct hd_task task = {.verb = "snapshot",
                                 .name = planned->snapshot_label,
                                 .body = replica > 0 ? copy_on_gpu_body
                                         : by_bucket ? copy_bucket_body
                                                     : copy_body,
                                 .group = background ? NULL : hd_binder_get_task_group(binder)};
    struct copy copy = {&from->replicas[replica], &to->replicas[replica], value, 0, replica, 0};
    HD_TRY(hd_transfer_version(binder, value, from, replica));
    for (copy.instance = 0; copy.instance < planned->instances; copy.instance++)
        for (int bucket = 0; bucket < (by_bucket ? spec->buckets : 1); bucket++) {
            copy.bucket = by_bucket ? bucket : HD_ALL_BUCKETS;
            HD_TRY(submit(binder, task, &copy));
        }
    to->replicas[replica].version = to->version;
    return HD_OK;
}

int hd_snapshot_for_lag(struct hd_binder *binder, int value)
{
    struct hd_version_slot *slot =
        hd_instances_start_iteration(&binder->instances[value], hd_binder_get_iteration(binder));
    return slot ? submit_snapshot(binder, value, slot, false) : HD_OK;
}

int hd_snapshot_for_background(struct hd_binder *binder, int value)
{
    struct hd_version_slot *slot = hd_instances_start_background(&binder->instances[value]);
    return slot ? submit_snapshot(binder, value, slot, true) : HD_OK;
}
