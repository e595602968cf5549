/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of versions: transfers between the replicas of a value, where GPUs take part, and
 * snapshots for readers that come later. Functions submit what is missing, and return HD_OK,
 * HD_ERR_NOMEM (logged) or the session's error. Called by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_COPIES_H
#define HD_GRAPH_EXECUTE_COPIES_H

struct hd_binder;
struct hd_op;
struct hd_version_slot;

/* Submits the tasks after which a replica of a slot of `value` holds the slot's version. Returns a
 * status as above. */
int hd_transfer_version(struct hd_binder *binder, int value, struct hd_version_slot *slot,
                        int replica);

/* Submits the tasks after which everything that a step reads is where the step's tasks run. Returns
 * a status as above. */
int hd_transfer_reads(struct hd_binder *binder, const struct hd_op *op);

/* Marks the start of the iteration for lagged readers of `value`, and submits the copy that they
 * need if the newest one is of an older version; and submits a copy for a background task likewise.
 * Return a status as above. */
int hd_snapshot_for_lag(struct hd_binder *binder, int value);
int hd_snapshot_for_background(struct hd_binder *binder, int value);

#endif
