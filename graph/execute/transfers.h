/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers between the replicas of a value, where GPUs take part. Called by the session's thread
 * only. */
#ifndef HD_GRAPH_EXECUTE_TRANSFERS_H
#define HD_GRAPH_EXECUTE_TRANSFERS_H

struct hd_binder;
struct hd_op;
struct hd_version_slot;

/* Submits the tasks after which a replica of a slot of `value` holds the slot's version, unless it
 * does so already. Returns HD_OK, HD_ERR_NOMEM (logged) or the session's error. */
int hd_transfer_version(struct hd_binder *binder, int value, struct hd_version_slot *slot,
                        int replica);

/* Submits the tasks after which everything that a step reads is where the step's tasks run. Returns
 * HD_OK, HD_ERR_NOMEM (logged) or the session's error. */
int hd_transfer_reads(struct hd_binder *binder, const struct hd_op *op);

#endif
