/* SPDX-License-Identifier: Apache-2.0 */
/* Control requests come from outside a run, at any moment on any rank: a rank is asked to stop, or
 * rank 0's clock says that a checkpoint is due. All ranks must apply them before the same
 * iteration. So every iteration combines the requests of all ranks, and once it has left the window
 * every rank knows the result. Called by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_CONTROL_REQUESTS_H
#define HD_GRAPH_EXECUTE_CONTROL_REQUESTS_H

struct hd_binder;
struct hd_control_requests;

/* Makes the memory for the iterations of a window. The caller releases *requests_p, which a failure
 * may leave set too, with hd_control_requests_destroy (accepts NULL). Returns HD_OK or HD_ERR_NOMEM
 * (logged). */
int hd_control_requests_create(struct hd_binder *binder, struct hd_control_requests **requests_p);
void hd_control_requests_destroy(struct hd_control_requests *requests);

/* Adds the requests `local` (bits) of this rank to the iteration being submitted, and stores those
 * that all ranks must apply before it: the requests of all ranks in the iteration that has just
 * left the window; on a rank that is alone, `local`. Returns HD_OK, HD_ERR_NOMEM (logged) or the
 * session's error. */
int hd_control_requests_reduce(struct hd_control_requests *requests, struct hd_binder *binder,
                               unsigned local, unsigned *all_p);

#endif
