/* SPDX-License-Identifier: Apache-2.0 */
/* When a run is checkpointed, and how one goes on. */
#ifndef HD_GRAPH_RUNNER_TRAIN_CHECKPOINTS_H
#define HD_GRAPH_RUNNER_TRAIN_CHECKPOINTS_H

#include "graph/runner/train/train.h"

/* With --resume: finds the run directory and its newest good checkpoint, all ranks the same, and
 * has the run spec be of as many shards. The config must be that of the checkpoint, but for keys
 * that may differ: else the differences are listed. Errors (logged): HD_ERR_INPUT, HD_ERR_FORMAT.
 */
int hd_resume_find(struct hd_train *train);

/* Refuses a checkpoint of another arithmetic fingerprint, unless that is allowed: HD_ERR_INPUT. */
int hd_resume_check(const struct hd_train *train);

/* Gives the new executor what the checkpoint holds, if there is one. */
int hd_resume_restore(struct hd_train *train);

/* Opens the run's checkpoints for writing, whose run directory is known on all ranks. */
int hd_train_open_checkpoints(struct hd_train *train);

/* The executor's get_requests and apply_requests (graph/execute/execute.h); requests_arg is the
 * train. */
unsigned hd_checkpoints_get_requests(void *train);
int hd_checkpoints_apply_requests(void *train, unsigned requests);

#endif
