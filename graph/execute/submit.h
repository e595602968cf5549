/* SPDX-License-Identifier: Apache-2.0 */
/* Submits steps that are due, by their lowering. Called by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_SUBMIT_H
#define HD_GRAPH_EXECUTE_SUBMIT_H

struct hd_binder;
struct hd_collective;
struct hd_op;
struct hd_work_buffers;

/* All functions but one return HD_OK, HD_ERR_NOMEM (logged) or the session's error. */
/* Submits a step for all instances and buckets of this rank, unless it is a stop; `work` is NULL
 * but for a step in subtasks. */
int hd_op_submit(struct hd_binder *binder, const struct hd_op *op, struct hd_work_buffers *work);
/* Returns the collective of an op as the iteration being submitted has it, without memory
 * (collectives.c). */
struct hd_collective hd_op_make_collective(struct hd_binder *binder, const struct hd_op *op);
/* Submits a collective of a step, or the comparison of a global value (collectives.c). */
int hd_op_submit_collective(struct hd_binder *binder, const struct hd_op *op);
int hd_op_submit_compare(struct hd_binder *binder, const struct hd_op *op);
/* Adds up a bucket of what the ranks' first GPUs have of a collective's result (collectives.c). */
int hd_op_submit_rank_sums(struct hd_binder *binder, const struct hd_op *op, int bucket);
/* Submits a reduction by several GPUs of a rank (gpu_reduce.c). */
int hd_op_submit_gpu_reduce(struct hd_binder *binder, const struct hd_op *op);
/* Submits a step together with the mean that it uses (sharded_update.c). */
int hd_op_submit_sharded_update(struct hd_binder *binder, const struct hd_op *op);

#endif
