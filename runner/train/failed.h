/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the batches that a step cannot work with, for people to look at: DIR/failed/. */
#pragma once

#include "runtime/value.h"

/* Writes the arrays that the views show to DIR/failed/update_<n>_shard_<s>.safetensors, once each
 * and for a few updates at most. It is dump_views of hd_session_options, whose dump_arg is the run
 * directory. Thread safe. */
void hd_failed_batch_write(const struct hd_context *context, const struct hd_view *views,
                           const char *why);
