/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a run whose GPU has failed. StarPU and CUDA may never return from where threads are in them,
 * so the thread that finds the failure ends the process: it tells the user, the other ranks and
 * result.json, and returns nowhere. */
#pragma once

#include "runner/train/base/train.h"

/* Ends this run from now on, within a second, when a thread finds that a GPU has failed; until
 * hd_gpu_failure_leave, which the main thread calls when nothing of the run is left. */
void hd_gpu_failure_catch(struct hd_train *train);
void hd_gpu_failure_leave(void);

/* Returns if no GPU has failed; else waits for the thread that ends the process, which has told
 * what there is to tell. */
void hd_gpu_failure_wait(void);
