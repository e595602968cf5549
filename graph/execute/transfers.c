/* SPDX-License-Identifier: Apache-2.0 */
/* Moves: tasks that bring a version to where it is read. Which there are follows from versions
 * alone, hence from what the submitter counts. A copy's dependences are its own: a move waits for
 * what made the version on one side and for the last readers on the other, and for nobody else. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/status.h"

static int transfer_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    return hd_device_copy(views[1].data, views[0].data, hd_value_get_common_bytes(views[0].spec),
                          context->stream);
}

static int transfer_bucket_body(struct hd_context *context, const struct hd_view *views,
                                const void *args)
{
    (void)args;
    int64_t at, bytes, lo, hi;
    hd_spec_get_bucket(views[0].spec, views[0].bucket, &lo, &hi);
    for (int i = 0;
         (bytes = hd_value_get_byte_range(views[0].spec, views[0].bucket, lo, hi, i, &at)) >= 0;
         i++)
        HD_TRY(hd_device_copy((char *)views[1].data + at, (const char *)views[0].data + at, bytes,
                              context->stream));
    return HD_OK;
}

static int renew_on_gpu_body(struct hd_context *context, const struct hd_view *views,
                             const void *args)
{
    (void)args;
    return views[0].spec->type->device->renew_on_gpu(views[0].spec, views[0].data, context->stream);
}

static int renew_on_host_body(struct hd_context *context, const struct hd_view *views,
                              const void *args)
{
    (void)context, (void)args;
    return views[0].spec->type->device->renew_on_host(views[0].spec, views[0].data);
}

static struct hd_task make_task(struct hd_executor *executor, int value, int instance)
{
    return (struct hd_task){
        .verb = "transfer",
        .name = executor->transfer_labels[value],
        .context = hd_executor_make_context(executor, NULL,
                                            executor->plan->values[value].first + instance),
        .priority = HD_PRIORITY_FIRST,
        .group = hd_executor_get_task_group(executor, false),
    };
}

/* Of what a side makes of the common bytes for itself. */
static int submit_renewal(struct hd_executor *executor, int value,
                          const struct hd_version_slot *slot, int to, int instance)
{
    const struct hd_spec *spec = &executor->instances[value].value->spec;
    const struct hd_device_form *form = spec->type->device;
    const struct hd_replica *memory = &slot->replicas[to];
    const struct hd_access access = {memory->buffers[instance], HD_ALL_BUCKETS, HD_ALL_PARTIALS,
                                     HD_UPDATE};
    if (!form || (to > 0 && !form->renew_on_gpu) || (to == 0 && !form->renew_on_host))
        return HD_OK;
    struct hd_task task = make_task(executor, value, instance);
    if (to > 0)
        task.home = hd_plan_get_replica_home(executor->plan, value, to, instance);
    task.body = to > 0 ? renew_on_gpu_body : renew_on_host_body;
    task.views[0] = (struct hd_view){.data = memory->data[instance], .spec = spec};
    task.n = task.n_accesses = 1;
    task.accesses = &access;
    return hd_submit_task(executor->session, &task);
}

/* Of an instance, or a bucket of it. A GPU's own stream does it: the one that it comes to, or that
 * it comes from. */
static int submit_transfer(struct hd_executor *executor, int value,
                           const struct hd_version_slot *slot, int from, int to, int instance,
                           int bucket)
{
    const struct hd_replica *source = &slot->replicas[from], *target = &slot->replicas[to];
    const struct hd_spec *spec = &executor->instances[value].value->spec;
    const struct hd_access accesses[] = {
        {source->buffers[instance], bucket, HD_ALL_PARTIALS, HD_READ},
        {target->buffers[instance], bucket, HD_ALL_PARTIALS, HD_WRITE}};
    struct hd_task task = make_task(executor, value, instance);
    task.home = hd_plan_get_replica_home(executor->plan, value, to > 0 ? to : from, instance);
    task.body = bucket == HD_ALL_BUCKETS ? transfer_body : transfer_bucket_body;
    task.views[0] =
        (struct hd_view){.data = source->data[instance], .spec = spec, .bucket = bucket};
    task.views[1] =
        (struct hd_view){.data = target->data[instance], .spec = spec, .bucket = bucket};
    task.n = task.n_accesses = 2;
    task.accesses = accesses;
    return hd_submit_task(executor->session, &task);
}

static int transfer_whole(struct hd_executor *executor, int value,
                          const struct hd_version_slot *slot, int to)
{
    int from = 0;
    while (slot->replicas[from].version != slot->version)
        from++;
    for (int i = 0; i < executor->instances[value].plan->instances; i++) {
        HD_TRY(submit_transfer(executor, value, slot, from, to, i, HD_ALL_BUCKETS));
        HD_TRY(submit_renewal(executor, value, slot, to, i));
    }
    return HD_OK;
}

/* Every bucket from where it is at home. */
static int transfer_buckets(struct hd_executor *executor, int value,
                            const struct hd_version_slot *slot, int to)
{
    const int buckets = executor->instances[value].value->spec.buckets;
    for (int bucket = 0; bucket < buckets; bucket++) {
        const int from = hd_plan_get_home(executor->plan, bucket, buckets);
        if (from != to)
            HD_TRY(submit_transfer(executor, value, slot, from, to, 0, bucket));
    }
    return submit_renewal(executor, value, slot, to, 0);
}

static bool whole_somewhere(const struct hd_version_slot *slot, int homes)
{
    for (int replica = 0; replica < homes; replica++)
        if (slot->replicas[replica].version == slot->version)
            return true;
    return false;
}

int hd_executor_transfer(struct hd_executor *executor, int value, struct hd_version_slot *slot,
                         int replica)
{
    if (slot->replicas[replica].version == slot->version)
        return HD_OK;
    if (whole_somewhere(slot, executor->instances[value].plan->homes))
        HD_TRY(transfer_whole(executor, value, slot, replica));
    else
        HD_TRY(transfer_buckets(executor, value, slot, replica));
    slot->replicas[replica].version = slot->version;
    return HD_OK;
}

/* Whether every task of a distributed op finds its part of ref i. */
static bool buckets_are_there(const struct hd_executor *executor, const struct hd_op *op, int i,
                              const struct hd_version_slot *slot)
{
    const struct hd_spec *spec = &executor->plan->graph->values[op->step->refs[i].value].spec;
    return hd_op_is_distributed(executor->plan, op) && spec->buckets == op->buckets &&
           slot->distributed_version == slot->version;
}

/* Whether tasks of the op run at a home, if they run on GPUs at all. */
static bool runs_at(const struct hd_executor *executor, const struct hd_op *op, int home)
{
    return home == 1 || op->step->placement == HD_SHARD ||
           hd_op_is_distributed(executor->plan, op) ||
           executor->plan->graph->values[op->step->refs[0].value].spec.placement == HD_SHARD;
}

int hd_executor_transfer_reads(struct hd_executor *executor, const struct hd_op *op)
{
    for (int i = 0; i < op->step->n_refs; i++) {
        const struct hd_ref *ref = &op->step->refs[i];
        if (ref->value == HD_NO_VALUE || ref->mode == HD_WRITE)
            continue;
        const struct hd_plan_value *value = &executor->plan->values[ref->value];
        struct hd_version_slot *slot = hd_executor_get_slot(executor, op, i);
        if (value->homes == 1 || value->instances == 0 || buckets_are_there(executor, op, i, slot))
            continue;
        if (hd_op_touches(op, i, false))
            HD_TRY(hd_executor_transfer(executor, ref->value, slot, 0));
        for (int replica = 1; replica < value->homes && hd_op_touches(op, i, true); replica++)
            if (runs_at(executor, op, replica))
                HD_TRY(hd_executor_transfer(executor, ref->value, slot, replica));
    }
    return HD_OK;
}

void hd_executor_note_write(struct hd_executor *executor, const struct hd_op *op, int i)
{
    const struct hd_plan_value *value = &executor->plan->values[op->step->refs[i].value];
    struct hd_version_slot *slot = hd_executor_get_slot(executor, op, i);
    if (value->homes == 1 || hd_op_touches(op, i, false))
        slot->replicas[0].version = slot->version;
    if (value->homes > 1 && hd_op_touches(op, i, true)) {
        if (hd_op_is_distributed(executor->plan, op))
            slot->distributed_version = slot->version;
        else
            slot->replicas[1].version = slot->version;
    }
}
