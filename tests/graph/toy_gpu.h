/* SPDX-License-Identifier: Apache-2.0 */
/* Toy verbs on a GPU: their bodies run on the host, in the order of the stream, on copies. So what
 * is computed is the CPU's to the bit, and what is tested is where values are and who waits. */
#ifndef HD_TESTS_GRAPH_TOY_GPU_H
#define HD_TESTS_GRAPH_TOY_GPU_H

#include "tasks/registry.h"

typedef int hd_toy_body(struct hd_context *context, const struct hd_view *views, const void *args);

/* Queues, on context->stream: copies of what the ports show to the host, `body` on them, copies of
 * what ports change back. HD_ERR_DEVICE. */
int hd_toy_queue(struct hd_context *context, const struct hd_view *views, const void *args,
                 const struct hd_port *ports, hd_toy_body *body);

#endif
