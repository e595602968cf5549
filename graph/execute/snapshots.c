/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter where the plan has a snapshot: once an iteration for lagged readers, and
 * before each background step that is due. */
#include "graph/execute/snapshots.h"

#include "graph/execute/bind.h"
#include "graph/execute/transfers.h"
#include "runtime/base/status.h"

static int copy_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    return hd_value_snapshot(views[0].spec, views[1].data, views[0].data);
}

static int copy_on_gpu_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)args;
    return hd_device_copy(views[1].data, views[0].data, hd_value_get_device_bytes(views[0].spec),
                          context->stream);
}

static int copy_bucket_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)context, (void)args;
    int64_t lo, hi;
    hd_spec_get_bucket(views[0].spec, views[0].bucket, &lo, &hi);
    return hd_value_copy_range(views[0].spec, lo, hi, views[1].data, views[0].data);
}

/* Types that know how to copy a range are copied bucket by bucket: a bucket is copied as soon as it
 * is done, and nobody who changes another bucket waits. */
static int submit_copy(struct hd_binder *binder, int value, const struct hd_version_slot *to_slot,
                       int replica, int i, bool background)
{
    const struct hd_instances *instances = &binder->instances[value];
    const struct hd_replica *from = &instances->version_slots[instances->current].replicas[replica];
    const struct hd_replica *to = &to_slot->replicas[replica];
    const struct hd_spec *spec = &instances->value->spec;
    const bool by_bucket = spec->buckets > 1 && spec->type->copy_range && replica == 0;
    struct hd_task task = {
        .verb = "snapshot",
        .name = instances->planned->snapshot_label,
        .body = replica > 0 ? copy_on_gpu_body
                : by_bucket ? copy_bucket_body
                            : copy_body,
        .context = hd_binder_make_context(binder, NULL, instances->planned->first + i),
        .views = {{.data = from->data[i], .spec = spec}, {.data = to->data[i], .spec = spec}},
        .n = 2,
        .n_accesses = 2,
        .group = background ? NULL : hd_binder_get_task_group(binder),
    };
    if (replica > 0)
        task.home = hd_plan_get_replica_home(binder->plan, value, replica, i);
    for (int bucket = 0; bucket < (by_bucket ? spec->buckets : 1); bucket++) {
        const int which = by_bucket ? bucket : HD_ALL_BUCKETS;
        const struct hd_access accesses[] = {{from->buffers[i], which, HD_ALL_PARTIALS, HD_READ},
                                             {to->buffers[i], which, HD_ALL_PARTIALS, HD_WRITE}};
        task.accesses = accesses;
        task.views[0].bucket = task.views[1].bucket = bucket;
        HD_TRY(hd_submit_task(binder->session, &task));
    }
    return HD_OK;
}

/* Makes the copy on the side of its readers; if they are on both, on the GPU, from where it is
 * transferred. */
static int submit_snapshot(struct hd_binder *binder, int value, struct hd_version_slot *to,
                           bool background)
{
    struct hd_instances *instances = &binder->instances[value];
    const struct hd_plan_value *planned = instances->planned;
    const int replica =
        planned->homes > 1 && (background ? planned->background.on_gpu : planned->lagged.on_gpu);
    HD_TRY(
        hd_transfer_version(binder, value, &instances->version_slots[instances->current], replica));
    for (int i = 0; i < planned->instances; i++)
        HD_TRY(submit_copy(binder, value, to, replica, i, background));
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
