/* SPDX-License-Identifier: Apache-2.0 */
/* A thread beside the run that shows where it is when asked by SIGUSR1, and ends a process whose
 * main thread cannot: a task that never returns may be on it. */
#ifndef HD_GRAPH_RUNNER_TRAIN_MONITOR_H
#define HD_GRAPH_RUNNER_TRAIN_MONITOR_H

#include "graph/runner/train/train.h"

/* Blocks SIGUSR1 in the calling thread and all that it makes later. */
void hd_monitor_prepare(void);

/* Watches train->session, which is there until `stop`. Errors: HD_ERR_SYSTEM (logged). */
int hd_monitor_start(struct hd_train *train);
void hd_monitor_stop(struct hd_train *train);

/* Shows a line for each rank, of which rank 0 knows what they last said. */
void hd_monitor_show(struct hd_train *train);

#endif
