/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of a running graph: its values named `policy` and, where there are such, `obs_norm`
 * and `batch_norm_stats`, of shard 0 if it is per shard. */
#ifndef HD_GRAPH_RUNNER_TRAIN_WEIGHTS_H
#define HD_GRAPH_RUNNER_TRAIN_WEIGHTS_H

#include "graph/execute/execute.h"
#include "tasks/output/inspect.h"

/* Borrowed from the executor; the graph must have a value `policy`. */
struct hd_weights hd_weights_find(const struct hd_graph *graph, struct hd_executor *executor);

#endif
