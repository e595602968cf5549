/* SPDX-License-Identifier: Apache-2.0 */
/* Toy verbs on a GPU: their bodies run on the host, in the order of the stream, on copies. So the
 * results are the CPU's to the bit, and tests show where values are and which tasks wait. */
#pragma once

#include "tasks/base/registry.h"

typedef int hd_toy_body(struct hd_context *context, const struct hd_view *views, const void *args);

/* Queues, on context->stream: copies of what the ports show to the host, `body` on them, copies of
 * what ports change back, of flat values the view's bucket only, if the verb goes by buckets.
 * HD_ERR_DEVICE. */
int hd_toy_queue(struct hd_context *context, const struct hd_view *views, const void *args,
                 const struct hd_port *ports, bool by_bucket, hd_toy_body *body);

/* Implement a reduction's functions for GPUs by its functions for the host. The type is flat. */
int hd_toy_reduce(const struct hd_spec *spec, int bucket, enum hd_combine how, int n_in,
                  const void *const *in, const struct hd_spec *out_spec, void *out, void *stream);
int hd_toy_add(enum hd_combine how, const struct hd_operand *operands, int n_operands, int64_t n,
               float *to, float *total, void *stream);
