/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that policy.eval.video_every adds to a graph. One thread at a time. */
#pragma once

#include "runtime/base/config/yaml.h"

/* Returns, in *graph_p, a copy of a graph's tree in which a step `record_video` follows each step
 * `evaluate` of the iteration and reads what that reads, every `every`-th time it runs. `document`
 * owns the copy. A graph of another form is left for its reader to complain of. Returns HD_OK, or
 * an error of hd_node_parse. */
int hd_video_steps_add(struct hd_document *document, const struct hd_node *graph, int64_t every,
                       struct hd_diag *diag, const struct hd_node **graph_p);
