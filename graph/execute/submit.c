/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter once for each step of an iteration that is due. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

static int submit_instance(struct hd_binder *binder, const struct hd_op *op, int instance,
                           int instances, int64_t shard)
{
    const struct hd_step *step = op->step;
    struct hd_bound bound;
    struct hd_task task = hd_binder_make_task(binder, op, shard);
    task.accesses = bound.accesses;
    task.n_accesses = step->n_refs;
    task.context.items = 1;
    task.waits = op->subtasks.waits;
    if (op->gpu)
        hd_binder_set_gpu_home(&task, op, hd_plan_get_home(binder->plan, instance, instances),
                               step->verb->gpu->body);
    task.work_at = op->scratch;
    task.header_at = op->scratch + hd_align_up(op->subtasks.work_bytes);
    for (int bucket = 0; bucket < op->buckets; bucket++) {
        hd_binder_bind(binder, op, instance, bucket, task.home, &bound);
        memcpy(task.views, bound.views, (size_t)step->n_refs * sizeof *task.views);
        if (op->value != HD_NO_VALUE)
            hd_spec_get_bucket(&binder->plan->graph->values[op->value].spec, bucket,
                               &task.context.lo, &task.context.hi);
        HD_TRY(hd_submit_task(binder->session, &task));
    }
    return HD_OK;
}

static int submit_tasks(struct hd_binder *binder, const struct hd_op *op)
{
    const int instances = hd_plan_count_instances(binder->plan, op->step->placement);
    const bool by_shard = op->step->placement == HD_SHARD;
    const int64_t first = binder->plan->rank * (int64_t)instances;
    for (int i = 0; i < instances; i++)
        HD_TRY(submit_instance(binder, op, i, instances, by_shard ? first + i : -1));
    return HD_OK;
}

int hd_op_submit(struct hd_binder *binder, const struct hd_op *op, struct hd_work_buffers *work)
{
    switch (op->lowering) {
    case HD_LOWERING_TASK:
        return submit_tasks(binder, op);
    case HD_LOWERING_SUBTASKS:
        return hd_op_submit_subtasks(binder, op, work);
    case HD_LOWERING_COLLECTIVE:
        return hd_op_submit_collective(binder, op);
    case HD_LOWERING_GPU_REDUCE:
        return hd_op_submit_gpu_reduce(binder, op);
    case HD_LOWERING_SHARDED_UPDATE:
        return hd_op_submit_sharded_update(binder, op);
    case HD_LOWERING_FUSED:
    case HD_LOWERING_STOP:
        break;
    }
    return HD_OK;
}
