/* SPDX-License-Identifier: Apache-2.0 */
/* Pools between the stages of a step: their memory, and the collectives that add them up. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

bool hd_op_pools_after(const struct hd_op *op, int stage)
{
    return op->pools && stage >= 0 && stage < op->subtasks.stages && op->pools[stage].n > 0;
}

static int create(struct hd_executor *executor, const struct hd_pool *pool, int instances,
                  struct hd_pool_memory *memory)
{
    memory->n = instances;
    memory->items = hd_alloc(instances, sizeof *memory->items);
    memory->buffers = hd_alloc(instances, sizeof *memory->buffers);
    memory->sums = hd_alloc(pool->sums.bytes, 1);
    if (!memory->items || !memory->buffers || !memory->sums)
        return HD_ERR_NOMEM;
    for (int i = 0; i < instances; i++) {
        memory->items[i] = hd_alloc(pool->items.bytes, 1);
        if (!memory->items[i])
            return HD_ERR_NOMEM;
        HD_TRY(hd_buffer_create(executor->session, 1, pool->items.partials, &memory->buffers[i]));
    }
    return hd_buffer_create(executor->session, 1, 1, &memory->sums_buffer);
}

int hd_pools_create(struct hd_executor *executor, const struct hd_op *op)
{
    struct hd_work_buffers *work = &executor->work_buffers[op->step->index];
    if (!op->pools)
        return HD_OK;
    work->pools = hd_alloc(op->subtasks.stages, sizeof *work->pools);
    if (!work->pools)
        return HD_ERR_NOMEM;
    work->n_pools = op->subtasks.stages;
    for (int stage = 0; stage < work->n_pools; stage++)
        if (hd_op_pools_after(op, stage))
            HD_TRY(create(executor, &op->pools[stage],
                          (int)(executor->plan->graph->shards / executor->plan->ranks),
                          &work->pools[stage]));
    return HD_OK;
}

void hd_pools_destroy(struct hd_work_buffers *work)
{
    for (int stage = 0; stage < work->n_pools; stage++) {
        struct hd_pool_memory *memory = &work->pools[stage];
        for (int i = 0; memory->items && memory->buffers && i < memory->n; i++) {
            hd_buffer_destroy(memory->buffers[i]);
            hd_free(memory->items[i]);
        }
        hd_buffer_destroy(memory->sums_buffer);
        hd_free(memory->items);
        hd_free(memory->buffers);
        hd_free(memory->sums);
    }
    hd_free(work->pools);
}

double *hd_pool_of(const struct hd_op *op, const struct hd_work_buffers *work, int stage,
                   int instance, int64_t item)
{
    const struct hd_spec *spec = &op->pools[stage].items;
    char *data = work->pools[stage].items[instance];
    return (double *)(data + item * (spec->bytes / spec->partials));
}

/* What pools and collectives of a plan have in common. */
static struct hd_collective collective_of(const struct hd_pool *pool)
{
    return (struct hd_collective){.verb = "pool",
                                  .name = pool->label,
                                  .kind = HD_COLLECTIVE_REDUCE,
                                  .how = HD_SUM,
                                  .in_spec = &pool->items,
                                  .out_spec = &pool->sums};
}

int hd_executor_submit_pool(struct hd_executor *executor, const struct hd_op *op, int stage)
{
    const struct hd_pool_memory *memory = &executor->work_buffers[op->step->index].pools[stage];
    struct hd_collective c = collective_of(&op->pools[stage]);
    c.n_in = memory->n;
    c.in = memory->items;
    c.in_buffers = memory->buffers;
    c.out = memory->sums;
    c.out_buffer = memory->sums_buffer;
    c.iteration = hd_executor_iteration(executor);
    c.priority = HD_PRIORITY_FIRST;
    c.group = hd_executor_group(executor, false);
    return hd_submit_collective(executor->session, &c);
}

void hd_pools_need(const struct hd_plan *plan, const struct hd_op *op, int64_t *scratch_p,
                   int64_t *payload_p)
{
    *scratch_p = *payload_p = 0;
    for (int stage = 0; stage < op->subtasks.stages; stage++) {
        if (!hd_op_pools_after(op, stage))
            continue;
        struct hd_collective c = collective_of(&op->pools[stage]);
        c.n_in = (int)(plan->graph->shards / plan->ranks);
        const int64_t scratch = hd_collective_scratch(&c, plan->ranks);
        const int64_t payload = hd_collective_payload(&c);
        *scratch_p = scratch > *scratch_p ? scratch : *scratch_p;
        *payload_p = payload > *payload_p ? payload : *payload_p;
    }
}
