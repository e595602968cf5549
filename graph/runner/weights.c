/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/weights.h"

struct hd_weights hd_weights_of(const struct hd_graph *graph, struct hd_executor *executor)
{
    const int policy = hd_graph_find(graph, "policy"), norm = hd_graph_find(graph, "obs_norm");
    struct hd_weights weights = {.params = &graph->values[policy].spec,
                                 .data = hd_executor_write(executor, policy, 0)};
    if (norm == HD_NO_VALUE)
        return weights;
    weights.obs_norm = &graph->values[norm].spec;
    weights.obs_norm_data = hd_executor_write(executor, norm, 0);
    return weights;
}
