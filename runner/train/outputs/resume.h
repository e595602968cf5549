/* SPDX-License-Identifier: Apache-2.0 */
/* A run that continues from a checkpoint. Called by the main thread. */
#pragma once

#include "runner/train/base/train.h"

enum { HD_RESUME_ENDED = 1 /* no error: the run has ended for good */ };

/* With --resume, finds the run directory and its newest good checkpoint, the same on all ranks, and
 * gives the run spec as many shards. The config must be that of the run, but for keys that may
 * differ: other differences are listed. Returns HD_OK; HD_RESUME_ENDED (logged) when a stop step
 * has ended the run and no other limit lets it go on; or, also for a --dir that is a run already
 * and for a directory that is none (logged), HD_ERR_INPUT, HD_ERR_FORMAT, HD_ERR_NOMEM. */
int hd_resume_find(struct hd_train *train);

/* Returns HD_ERR_INPUT (logged) for a checkpoint of another arithmetic fingerprint, unless that is
 * allowed. */
int hd_resume_check(const struct hd_train *train);

/* Gives the new executor what the checkpoint holds, if there is one. Errors: those of
 * hd_executor_restore. */
int hd_resume_restore(struct hd_train *train);
