/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/language/load.h"

#include "graph/language/check.h"
#include "graph/language/parse.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

int hd_graph_load(const struct hd_graph_source *source, struct hd_diag *diag,
                  struct hd_graph **graph_p)
{
    struct hd_graph *graph = hd_alloc(1, sizeof *graph);
    if (!graph)
        return HD_ERR_NOMEM;
    graph->registry = source->registry;
    graph->config = source->config;
    graph->shards = source->shards;
    graph->seed = source->seed;
    int status =
        hd_graph_parse(graph, source->graph, source->strategies, source->n_strategies, diag);
    if (status == HD_OK && hd_diag_count(diag) == 0)
        status = hd_graph_check(graph, diag);
    if (status == HD_OK && hd_diag_count(diag) > 0)
        status = HD_ERR_INPUT;
    if (status != HD_OK) {
        hd_graph_destroy(graph);
        return status;
    }
    *graph_p = graph;
    return HD_OK;
}
