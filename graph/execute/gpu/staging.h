/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from GPUs to host memory that is not pinned, which checkpoints make of values that live on
 * GPUs alone. Such a copy, queued as it is, makes the thread that serves the GPU wait for all work
 * before it. So it goes through two small blocks of pinned memory in turns: the GPU fills one while
 * a CPU worker empties the other. Called by the session's thread only. */
#ifndef HD_GRAPH_EXECUTE_GPU_STAGING_H
#define HD_GRAPH_EXECUTE_GPU_STAGING_H

#include "runtime/engine/submit.h"

struct hd_staging;

/* Allocates the blocks. The session outlives them; hd_staging_destroy (accepts NULL), called after
 * a failure too, waits for the tasks that use them. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_staging_create(struct hd_session *session, struct hd_staging **staging_p);
void hd_staging_destroy(struct hd_staging *staging);

/* Submits tasks that copy bytes [at, at + bytes) of transfer->views[0], on the GPU `home`, to the
 * same place in views[1], on the host, with the two accesses of *transfer. Returns HD_OK,
 * HD_ERR_NOMEM or HD_ERR_SYSTEM (logged). */
int hd_staging_submit_copy(struct hd_staging *staging, const struct hd_task *transfer, int64_t at,
                           int64_t bytes);

#endif
