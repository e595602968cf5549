/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/train/weights.h"

struct hd_weights hd_weights_find(const struct hd_graph *graph, struct hd_executor *executor)
{
    const int policy = hd_graph_find_value(graph, "policy"),
              norm = hd_graph_find_value(graph, "obs_norm");
    const int state = hd_graph_find_value(graph, "batch_norm_stats");
    struct hd_weights weights = {.params = &graph->values[policy].spec,
                                 .data = hd_executor_get_writable(executor, policy, 0)};
    if (norm != HD_NO_VALUE) {
        weights.obs_norm = &graph->values[norm].spec;
        weights.obs_norm_data = hd_executor_get_writable(executor, norm, 0);
    }
    if (state != HD_NO_VALUE) {
        weights.batch_norm_stats = &graph->values[state].spec;
        weights.batch_norm_stats_data = hd_executor_get_writable(executor, state, 0);
    }
    return weights;
}
