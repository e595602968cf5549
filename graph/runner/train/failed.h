/* SPDX-License-Identifier: Apache-2.0 */
/* What a step could not work with, kept for people: DIR/failed/. */
#ifndef HD_GRAPH_RUNNER_TRAIN_FAILED_H
#define HD_GRAPH_RUNNER_TRAIN_FAILED_H

#include "runtime/value.h"

/* For hd_session_options: arg is the struct hd_train. Writes the arrays that the views show to
 * DIR/failed/update_<n>_shard_<s>.safetensors, once each and for a few updates at most. */
void hd_failed_batch_write(const struct hd_context *context, const struct hd_view *views,
                           const char *why);

#endif
