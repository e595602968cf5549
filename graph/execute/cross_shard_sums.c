/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-shard sums between the stages of a step: their memory, and the collectives that add them
 * up. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

bool hd_op_has_cross_shard_sums(const struct hd_op *op, int stage)
{
    return op->cross_shard_sums && stage >= 0 && stage < op->subtasks.stages &&
           op->cross_shard_sums[stage].n > 0;
}

static int create(struct hd_executor *executor, const struct hd_cross_shard_sums *sums,
                  int instances, struct hd_cross_shard_buffers *memory)
{
    memory->n = instances;
    memory->items = hd_alloc(instances, sizeof *memory->items);
    memory->buffers = hd_alloc(instances, sizeof *memory->buffers);
    memory->sums = hd_alloc(sums->total.bytes, 1);
    if (!memory->items || !memory->buffers || !memory->sums)
        return HD_ERR_NOMEM;
    for (int i = 0; i < instances; i++) {
        memory->items[i] = hd_alloc(sums->items.bytes, 1);
        if (!memory->items[i])
            return HD_ERR_NOMEM;
        HD_TRY(hd_buffer_create(executor->session, 1, sums->items.partials, &memory->buffers[i]));
    }
    return hd_buffer_create(executor->session, 1, 1, &memory->sums_buffer);
}

int hd_cross_shard_sums_create(struct hd_executor *executor, const struct hd_op *op)
{
    struct hd_work_buffers *work = &executor->work_buffers[op->step->index];
    if (!op->cross_shard_sums)
        return HD_OK;
    work->cross_shard = hd_alloc(op->subtasks.stages, sizeof *work->cross_shard);
    if (!work->cross_shard)
        return HD_ERR_NOMEM;
    work->n_cross_shard = op->subtasks.stages;
    for (int stage = 0; stage < work->n_cross_shard; stage++)
        if (hd_op_has_cross_shard_sums(op, stage))
            HD_TRY(create(executor, &op->cross_shard_sums[stage],
                          (int)(executor->plan->graph->shards / executor->plan->ranks),
                          &work->cross_shard[stage]));
    return HD_OK;
}

void hd_cross_shard_sums_destroy(struct hd_work_buffers *work)
{
    for (int stage = 0; stage < work->n_cross_shard; stage++) {
        struct hd_cross_shard_buffers *memory = &work->cross_shard[stage];
        for (int i = 0; memory->items && memory->buffers && i < memory->n; i++) {
            hd_buffer_destroy(memory->buffers[i]);
            hd_free(memory->items[i]);
        }
        hd_buffer_destroy(memory->sums_buffer);
        hd_free(memory->items);
        hd_free(memory->buffers);
        hd_free(memory->sums);
    }
    hd_free(work->cross_shard);
}

double *hd_cross_shard_sums_get_item(const struct hd_op *op, const struct hd_work_buffers *work,
                                     int stage, int instance, int64_t item)
{
    const struct hd_spec *spec = &op->cross_shard_sums[stage].items;
    char *data = work->cross_shard[stage].items[instance];
    return (double *)(data + item * (spec->bytes / spec->partials));
}

/* What cross_shard_sums and collectives of a plan have in common. */
static struct hd_collective collective_of(const struct hd_cross_shard_sums *sums)
{
    return (struct hd_collective){.verb = "cross_shard_sums",
                                  .name = sums->label,
                                  .kind = HD_COLLECTIVE_REDUCE,
                                  .how = HD_SUM,
                                  .in_spec = &sums->items,
                                  .out_spec = &sums->total};
}

int hd_executor_submit_cross_shard_sums(struct hd_executor *executor, const struct hd_op *op,
                                        int stage)
{
    const struct hd_cross_shard_buffers *memory =
        &executor->work_buffers[op->step->index].cross_shard[stage];
    struct hd_collective c = collective_of(&op->cross_shard_sums[stage]);
    c.n_in = memory->n;
    c.in = memory->items;
    c.in_buffers = memory->buffers;
    c.out = memory->sums;
    c.out_buffer = memory->sums_buffer;
    c.iteration = hd_executor_get_iteration(executor);
    c.priority = HD_PRIORITY_FIRST;
    c.group = hd_executor_get_task_group(executor, false);
    return hd_submit_collective(executor->session, &c);
}

void hd_cross_shard_sums_get_bytes(const struct hd_plan *plan, const struct hd_op *op,
                                   int64_t *scratch_p, int64_t *payload_p)
{
    *scratch_p = *payload_p = 0;
    for (int stage = 0; stage < op->subtasks.stages; stage++) {
        if (!hd_op_has_cross_shard_sums(op, stage))
            continue;
        struct hd_collective c = collective_of(&op->cross_shard_sums[stage]);
        c.n_in = (int)(plan->graph->shards / plan->ranks);
        const int64_t scratch = hd_collective_get_host_scratch_bytes(&c, plan->ranks);
        const int64_t payload = hd_collective_get_payload_bytes(&c);
        *scratch_p = scratch > *scratch_p ? scratch : *scratch_p;
        *payload_p = payload > *payload_p ? payload : *payload_p;
    }
}
