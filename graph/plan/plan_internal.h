/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of the planner, in the order in which plan.c runs them, each in its own file. They
 * change a plan that is being made, so one thread at a time may call them. */
#pragma once

#include "graph/plan/plan.h"

/* Sets background[step->index] for every step whose results nobody waits for (background.c). */
void hd_plan_find_background_steps(const struct hd_plan *plan, bool *background);

/* Returns where a background step reads a ref without lag from, and reserves the buffers that let
 * the ref's writers go on meanwhile. The caller adds the snapshot op for HD_FROM_BACKGROUND. */
enum hd_source hd_plan_get_background_source(struct hd_plan *plan, const struct hd_step *step,
                                             const struct hd_ref *ref);

/* Returns whether a step, whose task object is made, adds up numbers between its stages
 * (cross_shard_sums.c). */
bool hd_step_has_cross_shard_sums(const struct hd_step *step);

/* Describes the sums of a step in op->cross_shard_sums, which hd_plan_destroy frees. Returns HD_OK,
 * HD_ERR_NOMEM or HD_ERR_UNSUPPORTED (logged). */
int hd_plan_add_cross_shard_sums(struct hd_op *op);

/* Decides which collectives run on GPUs (devices.c). */
void hd_plan_place_reductions(struct hd_plan *plan);

/* Lowers a mean and its only user to one sharded update where both allow it, and decides which
 * values then are sharded, not stored, or shared among the ranks (sharded_updates.c). Returns HD_OK
 * or HD_ERR_NOMEM (logged). */
int hd_plan_find_sharded_updates(struct hd_plan *plan);

/* Decides which values have replicas on GPUs (devices.c). */
void hd_plan_assign_homes(struct hd_plan *plan);

/* Gives means of one term the memory of that term (aliases.c). */
void hd_plan_find_aliases(struct hd_plan *plan);

/* Finds the repeats whose tasks on the GPU become one (fused_repeats.c). */
void hd_plan_find_fused_repeats(struct hd_plan *plan);

/* Return where the innermost body of a repeat around op `at` ends, or else the plan; and whether an
 * op touches a value, as a ref of its step or by copying or comparing it (transient.c). */
int hd_plan_find_body_end(const struct hd_plan *plan, int at);
bool hd_op_names(const struct hd_op *op, int value);

/* Marks the values that are dead between iterations, so that checkpoints leave them out
 * (transient.c). */
void hd_plan_find_transient_values(struct hd_plan *plan);

/* Decides which values are in GPU order, in the specs of the graph (gpu_orders.c). */
void hd_plan_find_gpu_orders(struct hd_plan *plan);

/* Returns whether an op exchanges a value with other ranks by collectives of its own. */
static inline bool hd_op_is_collective(const struct hd_op *op)
{
    return op->kind == HD_OP_COMPARE ||
           (op->kind == HD_OP_STEP &&
            (op->lowering == HD_LOWERING_COLLECTIVE || op->lowering == HD_LOWERING_GPU_REDUCE));
}

/* Return whether a step names a value, and whether it changes it. */
static inline bool hd_step_names(const struct hd_step *step, int value)
{
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value == value)
            return true;
    return false;
}

static inline bool hd_step_changes(const struct hd_step *step, int value)
{
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value == value && hd_ref_changes(&step->refs[i]))
            return true;
    return false;
}
