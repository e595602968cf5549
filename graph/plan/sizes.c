/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how much scratch and how large buffers the tasks and collectives of a plan need. */
#include "graph/plan/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/tree.h"
#include "runtime/engine/collective/sharded_update.h"

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t find_max(const struct hd_plan *plan,
                        int64_t (*get_bytes)(const struct hd_plan *plan, const struct hd_op *op))
{
    int64_t max = 0;
    for (int i = 0; i < plan->n_ops; i++)
        max = max_of(max, get_bytes(plan, &plan->ops[i]));
    return max;
}

/* Returns the most bytes that the collectives of an op, its own or its cross-shard sums, need by
 * `get_bytes`. */
static int64_t get_collectives(const struct hd_plan *plan, const struct hd_op *op,
                               int64_t (*get_bytes)(const struct hd_plan *plan,
                                                    const struct hd_collective *c))
{
    int64_t max = 0;
    if (hd_op_is_collective(op)) {
        const struct hd_collective c = hd_plan_make_collective(plan, op);
        return get_bytes(plan, &c);
    }
    for (int stage = 0; op->cross_shard_sums && stage < op->subtasks.stages; stage++) {
        const struct hd_cross_shard_sums *sums = &op->cross_shard_sums[stage];
        const struct hd_collective c = hd_plan_make_cross_shard_collective(plan, sums);
        max = max_of(max, sums->n > 0 ? get_bytes(plan, &c) : 0);
    }
    return max;
}

static int64_t get_collective_scratch(const struct hd_plan *plan, const struct hd_collective *c)
{
    return hd_collective_get_host_scratch_bytes(c, plan->ranks);
}

static int64_t get_collective_payload(const struct hd_plan *plan, const struct hd_collective *c)
{
    (void)plan;
    return hd_collective_get_payload_bytes(c);
}

static int64_t get_scratch(const struct hd_plan *plan, const struct hd_op *op)
{
    const int64_t collectives = get_collectives(plan, op, get_collective_scratch);
    if (op->kind != HD_OP_STEP || hd_op_is_collective(op))
        return collectives;
    switch (op->lowering) {
    case HD_LOWERING_SUBTASKS:
        return max_of(op->scratch, collectives);
    case HD_LOWERING_SHARDED_UPDATE:
        return hd_sharded_update_get_scratch_bytes(op->scratch);
    default:
        return op->scratch + hd_align_up(op->subtasks.work_bytes) +
               hd_align_up(op->subtasks.header_bytes);
    }
}

int64_t hd_plan_get_scratch_bytes(const struct hd_plan *plan)
{
    const int64_t control_requests = HD_ALIGNMENT * hd_tree_count_levels(plan->ranks);
    return max_of(control_requests, find_max(plan, get_scratch));
}

static int64_t get_device_scratch(const struct hd_plan *plan, const struct hd_op *op)
{
    const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
    if (gpu && gpu->scratch)
        return gpu->scratch(op->step->args);
    if (op->lowering != HD_LOWERING_GPU_REDUCE)
        return 0;
    const struct hd_spec *spec = &plan->graph->values[op->step->refs[1].value].spec;
    int64_t max = 0;
    for (int bucket = 0; bucket < spec->buckets; bucket++)
        max = max_of(max, plan->devices * hd_gpu_operand_get_bytes(spec, bucket));
    return max;
}

int64_t hd_plan_get_device_scratch_bytes(const struct hd_plan *plan)
{
    return find_max(plan, get_device_scratch);
}

static int64_t get_device_comm(const struct hd_plan *plan, const struct hd_op *op)
{
    if (!hd_op_is_collective(op) || !op->gpu)
        return 0;
    const struct hd_collective c = hd_plan_make_collective(plan, op);
    return hd_collective_get_device_comm_bytes(&c, plan->ranks);
}

int64_t hd_plan_get_device_comm_bytes(const struct hd_plan *plan)
{
    return find_max(plan, get_device_comm);
}

static int64_t get_payload(const struct hd_plan *plan, const struct hd_op *op)
{
    return get_collectives(plan, op, get_collective_payload);
}

int64_t hd_plan_get_payload_bytes(const struct hd_plan *plan)
{
    return max_of(HD_ALIGNMENT, find_max(plan, get_payload));
}

static bool uses_channel(const struct hd_op *op, int channel)
{
    return op->channels.n == 0
               ? channel == 0
               : channel >= op->channels.first && channel < op->channels.first + op->channels.n;
}

/* Buffers of all channels are as large, but only what is used of them takes memory. */
int64_t hd_plan_get_exchange_bytes(const struct hd_plan *plan)
{
    int64_t sum = 0;
    for (int channel = 0; channel < plan->channels && plan->ranks > 1; channel++) {
        int64_t most = HD_ALIGNMENT;
        for (int i = 0; i < plan->n_ops; i++)
            if (uses_channel(&plan->ops[i], channel))
                most = max_of(most, get_payload(plan, &plan->ops[i]));
        sum += 2 * most;
    }
    return sum;
}
