/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a run, of all ranks in one file. The main thread calls; without --trace, nothing
 * happens. */
#pragma once

#include "runner/train/base/train.h"

/* Begins to note what the session, which is made after it, will submit; hd_traces_close ends that.
 * Returns HD_OK or HD_ERR_NOMEM. */
int hd_traces_open(struct hd_train *train);
void hd_traces_close(struct hd_train *train);

/* Notes that an iteration begins. */
void hd_traces_begin_iteration(struct hd_train *train);

/* Another rank than 0 leaves its part of the trace in the run directory, and tells rank 0. Returns
 * HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (logged). */
int hd_traces_leave_part(struct hd_train *train);

/* Takes note of a message of hd_traces_leave_part; returns false for any other. Any thread. */
bool hd_traces_receive(struct hd_train *train, const void *data, int64_t bytes);

/* Rank 0 joins all parts to trace.json, once the other ranks have left theirs. Returns HD_OK,
 * HD_ERR_PEER if a rank is gone or leaves nothing, or the errors of files and memory (logged). */
int hd_traces_write(struct hd_train *train);
