/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a graph from the trees of its files. One thread at a time. */
#pragma once

#include "graph/language/graph.h"

struct hd_graph_source {
    const struct hd_registry *registry;
    const struct hd_config *config;
    const struct hd_node *graph;             /* the tree of the graph file */
    const struct hd_node *const *strategies; /* maps of parameters, later ones win */
    int n_strategies;
    int64_t shards;
    uint64_t seed;
};

/* Reads and checks a graph and reports every mistake to diag with its place. The source's trees,
 * config and registry outlive the graph, which hd_graph_destroy releases. Errors: HD_ERR_INPUT
 * (reported to diag), HD_ERR_NOMEM. */
int hd_graph_load(const struct hd_graph_source *source, struct hd_diag *diag,
                  struct hd_graph **graph_p);
