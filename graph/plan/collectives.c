/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of a plan ask how large its collectives are; the executor adds memory and submits them.
 */
#include "graph/plan/plan.h"
#include "runtime/base/alloc.h"

struct hd_collective hd_plan_make_collective(const struct hd_plan *plan, const struct hd_op *op)
{
    if (op->kind == HD_OP_COMPARE)
        return (struct hd_collective){.verb = "compare",
                                      .name = plan->values[op->value].compare_label,
                                      .kind = HD_COLLECTIVE_COMPARE,
                                      .in_spec = &plan->graph->values[op->value].spec,
                                      .n_in = 1};
    const struct hd_step *step = op->step;
    struct hd_collective c = {.verb = step->verb->name, .name = step->label, .how = step->combine};
    c.kind = step->verb->kind == HD_VERB_COLLECTIVE  ? HD_COLLECTIVE_REDUCE
             : step->verb->kind == HD_VERB_BROADCAST ? HD_COLLECTIVE_BROADCAST
                                                     : HD_COLLECTIVE_BARRIER;
    if (c.kind != HD_COLLECTIVE_BARRIER) {
        c.in_spec = &plan->graph->values[step->refs[0].value].spec;
        c.out_spec = &plan->graph->values[step->refs[1].value].spec;
        c.n_in = plan->values[step->refs[0].value].instances;
        c.rounding = hd_op_get_rounding(op);
    }
    return c;
}

struct hd_collective hd_plan_make_cross_shard_collective(const struct hd_plan *plan,
                                                         const struct hd_cross_shard_sums *sums)
{
    return (struct hd_collective){.verb = "cross_shard_sums",
                                  .name = sums->label,
                                  .kind = HD_COLLECTIVE_REDUCE,
                                  .how = HD_SUM,
                                  .in_spec = &sums->items,
                                  .out_spec = &sums->total,
                                  .n_in = hd_plan_count_instances(plan, HD_SHARD)};
}

int64_t hd_gpu_operand_get_floats(const struct hd_spec *spec, int bucket)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return hd_align_up((hi - lo) * (int64_t)sizeof(float)) / (int64_t)sizeof(float);
}

int64_t hd_gpu_operand_get_bytes(const struct hd_spec *spec, int bucket)
{
    return hd_gpu_operand_get_floats(spec, bucket) * (int64_t)sizeof(float) + HD_ALIGNMENT;
}
