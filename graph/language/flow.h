/* SPDX-License-Identifier: Apache-2.0 */
/* Follows values through the iterations of a graph. One thread at a time. */
#pragma once

#include "graph/language/graph.h"

/* Reports to diag what a step reads though it has no content, and to graph->warnings, which it
 * makes, what is computed in vain, stays as it starts, or is read before it is written. Returns
 * HD_OK, with or without mistakes, or HD_ERR_NOMEM. */
int hd_graph_check_flow(struct hd_graph *graph, struct hd_diag *diag);
