/* SPDX-License-Identifier: Apache-2.0 */
/* When a run is checkpointed. Called by the session's thread only, unless stated otherwise. */
#pragma once

#include "runner/train/base/train.h"

/* Opens the checkpoints of the run directory for writing. Errors: those of
 * hd_checkpoint_writer_create. */
int hd_checkpoints_open(struct hd_train *train);

/* These are get_requests and apply_requests of the executor (graph/execute/execute.h), whose
 * requests_arg is the train: rank 0 requests a checkpoint now and then, and any rank that a signal
 * reached requests one and an end. Applying returns HD_OK; after the last checkpoint
 * HD_ERR_INTERRUPTED because of Ctrl-C, else HD_ERR_STOPPED; or the errors of hd_executor_save. */
unsigned hd_checkpoints_get_requests(void *train);
int hd_checkpoints_apply_requests(void *train, unsigned requests);

/* Writes how old the newest checkpoint is, and how to go on from it, to text[bytes]. Any thread. */
void hd_checkpoints_describe_last(const struct hd_train *train, char *text, int64_t bytes);

/* Saves at a stop step (save_at_stop of the executor), unless the run makes no checkpoints. Returns
 * HD_OK or the errors of hd_executor_save. */
int hd_checkpoints_save_at_stop(void *train);
