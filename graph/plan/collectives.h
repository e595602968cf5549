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

/* Returns the collective that adds up cross-shard sums, without memory. */
struct hd_collective hd_plan_make_cross_shard_collective(const struct hd_plan *plan,
                                                         const struct hd_cross_shard_sums *sums);

/* A reduction by several GPUs keeps operands in a GPU's scratch: floats, padded to 64 bytes, and
 * then HD_ALIGNMENT bytes that begin with the operand's count. Return the number of floats with
 * padding, and the bytes of the whole. */
int64_t hd_gpu_operand_get_floats(const struct hd_spec *spec, int bucket);
int64_t hd_gpu_operand_get_bytes(const struct hd_spec *spec, int bucket);

#endif
