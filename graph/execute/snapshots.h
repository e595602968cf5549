/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: copies of the current version of a value for readers that come later. Called by the
 * session's thread only. */
#ifndef HD_GRAPH_EXECUTE_SNAPSHOTS_H
#define HD_GRAPH_EXECUTE_SNAPSHOTS_H

struct hd_binder;

/* Marks the start of the iteration for lagged readers of `value`, and submits the copy that they
 * need if the newest copy is of an older version. Returns HD_OK, HD_ERR_NOMEM (logged) or the
 * session's error. */
int hd_snapshot_for_lag(struct hd_binder *binder, int value);

/* Submits a copy for a background task if the newest copy for such tasks is of an older version.
 * Returns HD_OK, HD_ERR_NOMEM (logged) or the session's error. */
int hd_snapshot_for_background(struct hd_binder *binder, int value);

#endif
