/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of a plan, as the runtime knows them: sizes.c asks how large they are, the
 * executor adds memory and submits them. Thread safe: these functions only read a plan. */
#ifndef HD_GRAPH_PLAN_COLLECTIVES_H
#define HD_GRAPH_PLAN_COLLECTIVES_H

#include "graph/plan/plan.h"
#include "runtime/engine/submit.h"

/* Returns the collective of a comparison, or of a step that is no task: what it does, its specs and
 * its number of instances on this rank, without memory. Its names are the plan's and the graph's.
 */
struct hd_collective hd_plan_make_collective(const struct hd_plan *plan, const struct hd_op *op);

/* Returns likewise the collective that adds up cross-shard sums. */
struct hd_collective hd_plan_make_cross_shard_collective(const struct hd_plan *plan,
                                                         const struct hd_cross_shard_sums *sums);

/* Returns the floats of an operand of a reduction by several GPUs in a GPU's scratch, a multiple of
 * 64 bytes, without the block of HD_ALIGNMENT bytes behind them that begins with its count. */
int64_t hd_gpu_operand_get_floats(const struct hd_spec *spec, int bucket);
int64_t hd_gpu_operand_get_bytes(const struct hd_spec *spec, int bucket);

#endif
