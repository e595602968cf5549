/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in subtasks: a task per instance, item and stage, and one that finishes. Called by the
 * session's thread only. */
#ifndef HD_GRAPH_EXECUTE_SUBTASKS_H
#define HD_GRAPH_EXECUTE_SUBTASKS_H

struct hd_binder;
struct hd_op;

/* The memory that a step in subtasks keeps between its tasks, for every instance and item. */
struct hd_work_buffers;

/* Makes the work buffers of an op, if it is a step in subtasks. The caller releases *work_p, which
 * a failure may leave set too, with hd_work_buffers_destroy (accepts NULL). Returns HD_OK or
 * HD_ERR_NOMEM (logged). */
int hd_work_buffers_create(struct hd_binder *binder, const struct hd_op *op,
                           struct hd_work_buffers **work_p);
void hd_work_buffers_destroy(struct hd_binder *binder, struct hd_work_buffers *work);

/* Submits all subtasks of a step on this rank. Returns HD_OK, HD_ERR_NOMEM (logged) or the
 * session's error. */
int hd_op_submit_subtasks(struct hd_binder *binder, const struct hd_op *op,
                          struct hd_work_buffers *work);

#endif
