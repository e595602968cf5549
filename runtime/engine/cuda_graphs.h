/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs of the work that bodies queue on a GPU. A body that queues the same for the same
 * addresses is captured at its second call; afterwards its launches, some dozens, are one. One
 * thread at a time for each set of graphs, unless stated otherwise. */
#ifndef HD_RUNTIME_ENGINE_CUDA_GRAPHS_H
#define HD_RUNTIME_ENGINE_CUDA_GRAPHS_H

#include "runtime/value.h"

struct hd_cuda_graphs;

/* Creates an empty set for the calling thread's GPU, released, also after a failure, by
 * hd_cuda_graphs_destroy (accepts NULL) when no graph is running. Returns HD_OK, HD_ERR_NOMEM or
 * HD_ERR_DEVICE (logged). */
int hd_cuda_graphs_create(struct hd_cuda_graphs **cuda_graphs_p);
void hd_cuda_graphs_destroy(struct hd_cuda_graphs *cuda_graphs);

/* A call of a body. */
struct hd_captured_call {
    int (*body)(struct hd_context *context, const struct hd_view *views, const void *args);
    struct hd_context *context; /* complete; its stream is the one */
    const struct hd_view *views;
    const void *args;
    int graph; /* tells calls apart that queue different work for the same addresses */
};

/* Queues what the body queues. Returns the body's status, or HD_ERR_DEVICE (logged). */
int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, const struct hd_captured_call *call);

/* Asks GPU `device` whether it has failed, by its stream; by an event while the stream is captured,
 * since a question would end that. Returns HD_OK or HD_ERR_DEVICE (logged). Any thread. */
int hd_cuda_graphs_check(struct hd_cuda_graphs *cuda_graphs, int device, void *stream);

#endif
