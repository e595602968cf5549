/* SPDX-License-Identifier: Apache-2.0 */
/* Describes cross-shard sums: all items of a stage, on all shards, leave numbers that are added up
 * before the next stage. To the runtime the numbers of a stage are a value like any other, with a
 * partial per item, that a collective sums. */
#include "graph/plan/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- The value --------------------------------------------------------------------------------- */

static int64_t count_of(const struct hd_spec *spec)
{
    return ((const struct hd_cross_shard_sums *)spec->shape)->n;
}

static int64_t vector_bytes(const struct hd_spec *spec, int bucket)
{
    (void)bucket;
    return count_of(spec) * (int64_t)sizeof(double);
}

/* Adds up partials [lo, lo + n) in the tree of runtime/base/tree.h. */
static double add_partials(const double *first, int64_t stride, int64_t lo, int64_t n)
{
    if (n == 1)
        return first[lo * stride];
    double left = add_partials(first, stride, lo, n / 2);
    return left + add_partials(first, stride, lo + n / 2, n - n / 2);
}

static void cross_shard_sums_pack(const struct hd_spec *spec, int bucket, const void *data,
                                  void *vector)
{
    (void)bucket;
    const int64_t stride = spec->bytes / spec->partials / (int64_t)sizeof(double);
    for (int64_t i = 0; i < count_of(spec); i++)
        ((double *)vector)[i] = add_partials((const double *)data + i, stride, 0, spec->partials);
}

static void cross_shard_sums_combine(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                     void *into, const void *other)
{
    (void)bucket, (void)how;
    for (int64_t i = 0; i < count_of(spec); i++)
        ((double *)into)[i] += ((const double *)other)[i];
}

static void cross_shard_sums_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                    const void *vector, void *data)
{
    (void)how;
    memcpy(data, vector, (size_t)vector_bytes(spec, bucket));
}

static const struct hd_reduction reduction = {
    .bytes = vector_bytes,
    .pack = cross_shard_sums_pack,
    .combine = cross_shard_sums_combine,
    .unpack = cross_shard_sums_unpack,
    .hows = 1 << HD_SUM,
};
static const struct hd_type type = {.name = "cross_shard_sums", .reduction = &reduction};

/* -- The sums of a step ------------------------------------------------------------------------ */

static int64_t count(const struct hd_step *step, const struct hd_subtasks *subtasks, int stage)
{
    return stage < subtasks->stages && step->verb->count_cross_shard_sums
               ? step->verb->count_cross_shard_sums(step->args, stage)
               : 0;
}

bool hd_step_has_cross_shard_sums(const struct hd_step *step)
{
    struct hd_subtasks subtasks = {.items = 1, .stages = 1};
    if (step->verb->get_subtasks)
        step->verb->get_subtasks(step->args, &subtasks);
    for (int stage = 0; stage < subtasks.stages; stage++)
        if (count(step, &subtasks, stage) > 0)
            return true;
    return false;
}

static void fill(struct hd_cross_shard_sums *sums, const struct hd_op *op, int stage, int64_t n)
{
    const int64_t partial_bytes = hd_align_up(n * (int64_t)sizeof(double));
    snprintf(sums->label, sizeof sums->label, "%s.sums%d", op->step->label, stage);
    sums->n = n;
    sums->items = (struct hd_spec){.name = sums->label,
                                   .type = &type,
                                   .placement = HD_SHARD,
                                   .shape = sums,
                                   .bytes = op->subtasks.items * partial_bytes,
                                   .buckets = 1,
                                   .partials = op->subtasks.items};
    sums->total = sums->items;
    sums->total.placement = HD_GLOBAL;
    sums->total.bytes = partial_bytes;
    sums->total.partials = 1;
}

int hd_plan_add_cross_shard_sums(struct hd_op *op)
{
    const struct hd_step *step = op->step;
    if (!hd_step_has_cross_shard_sums(step))
        return HD_OK;
    if (step->placement != HD_SHARD)
        return hd_fail(HD_ERR_UNSUPPORTED,
                       "%s adds up over shards between its stages, but is not a shard step",
                       step->label);
    if (count(step, &op->subtasks, op->subtasks.stages - 1) > 0)
        return hd_fail(HD_ERR_UNSUPPORTED,
                       "%s adds up after its last stage: nothing reads the sums", step->label);
    op->cross_shard_sums = hd_alloc(op->subtasks.stages, sizeof *op->cross_shard_sums);
    if (!op->cross_shard_sums)
        return HD_ERR_NOMEM;
    for (int stage = 0; stage < op->subtasks.stages; stage++) {
        const int64_t n = count(step, &op->subtasks, stage);
        if (n > 0)
            fill(&op->cross_shard_sums[stage], op, stage, n);
    }
    return HD_OK;
}
