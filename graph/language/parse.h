/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the trees of a graph's files into values and steps. One thread at a time. */
#pragma once

#include "graph/language/graph.h"

/* Fills an empty graph with what the tree of the graph file holds: structure, names and
 * expressions. strategies[n_strategies] are maps that override its strategy parameters, later ones
 * win. Every mistake goes to diag. Errors:
 * HD_ERR_INPUT (reported to diag, which may hold mistakes after HD_OK too), HD_ERR_NOMEM. */
int hd_graph_parse(struct hd_graph *graph, const struct hd_node *root,
                   const struct hd_node *const *strategies, int n_strategies, struct hd_diag *diag);
