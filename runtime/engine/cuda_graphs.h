/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs of the work that tasks queue on a GPU. Tasks that queue the same for the same
 * addresses are captured at the second time; afterwards their launches, some dozens, are one. One
 * thread at a time for each set of graphs, unless stated otherwise. */
#ifndef HD_RUNTIME_ENGINE_CUDA_GRAPHS_H
#define HD_RUNTIME_ENGINE_CUDA_GRAPHS_H

#include "runtime/engine/submit.h"

struct hd_cuda_graphs;

/* Creates an empty set for the calling thread's GPU, released, also after a failure, by
 * hd_cuda_graphs_destroy (accepts NULL) when no graph is running. Returns HD_OK, HD_ERR_NOMEM or
 * HD_ERR_DEVICE (logged). */
int hd_cuda_graphs_create(struct hd_cuda_graphs **cuda_graphs_p);
void hd_cuda_graphs_destroy(struct hd_cuda_graphs *cuda_graphs);

/* Queues the work of n >= 1 tasks, one after another, whose contexts are complete and have the same
 * stream: by one launch if all can be recorded. Returns HD_OK, or the status of a task's body or
 * HD_ERR_DEVICE (logged), with that task in *failed_p. */
int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                       const struct hd_task **failed_p);

/* Asks GPU `device` whether it has failed, by its stream; by an event while the stream is captured,
 * since a question would end that. Returns HD_OK or HD_ERR_DEVICE (logged). Any thread. */
int hd_cuda_graphs_check(struct hd_cuda_graphs *cuda_graphs, int device, void *stream);

#endif
