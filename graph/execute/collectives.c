/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the collectives of the plan their memory and submits them. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/status.h"

struct hd_collective hd_op_make_collective(struct hd_binder *binder, const struct hd_op *op)
{
    struct hd_collective c = hd_plan_make_collective(binder->plan, op);
    c.iteration = hd_binder_get_iteration(binder);
    c.priority = HD_PRIORITY_FIRST;
    c.group = hd_binder_get_task_group(binder);
    c.channel = hd_channels_choose(&op->channels, 0);
    return c;
}

int hd_op_submit_collective(struct hd_binder *binder, const struct hd_op *op)
{
    struct hd_collective c = hd_op_make_collective(binder, op);
    if (c.kind != HD_COLLECTIVE_BARRIER) {
        c.home = op->gpu ? 1 : HD_HOST;
        c.in = hd_binder_get_replica(binder, op, 0, c.home)->memory;
        if (binder->plan->values[op->step->refs[1].value].instances > 0)
            c.out = hd_binder_get_replica(binder, op, 1, c.home)->memory[0];
        if (c.rounding && op->step->refs[2].value != HD_NO_VALUE)
            c.residuals = hd_binder_get_replica(binder, op, 2, c.home)->memory;
    }
    int buckets = c.kind == HD_COLLECTIVE_REDUCE ? c.in_spec->buckets : 1;
    for (c.bucket = 0; c.bucket < buckets; c.bucket++) {
        c.channel = hd_channels_choose(&op->channels, c.bucket);
        HD_TRY(hd_submit_collective(binder->session, &c));
    }
    return HD_OK;
}

int hd_op_submit_rank_sums(struct hd_binder *binder, const struct hd_op *op, int bucket)
{
    struct hd_collective c = hd_op_make_collective(binder, op);
    c.bucket = bucket;
    c.home = 1;
    c.n_in = 0;
    c.out = hd_binder_get_replica(binder, op, 1, 1)->memory[0];
    return hd_submit_collective(binder->session, &c);
}

int hd_op_submit_compare(struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_instances *instances = &binder->instances[op->value];
    struct hd_version_slot *slot = &instances->version_slots[instances->current];
    HD_TRY(hd_transfer_version(binder, op->value, slot, 0));
    struct hd_collective c = hd_op_make_collective(binder, op);
    c.in = slot->replicas[0].memory;
    c.priority = HD_PRIORITY_NORMAL;
    return hd_submit_collective(binder->session, &c);
}
