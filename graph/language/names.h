/* SPDX-License-Identifier: Apache-2.0 */
/* Names inside a graph file: numbers of the config and the strategy, counters, attributes, fields.
 * One thread at a time. */
#pragma once

#include "graph/language/graph.h"

/* Parses a scalar as an expression over the graph's names; fields of values, which are data, may be
 * named only if `fields`. The caller releases it by hd_expr_destroy. Errors: HD_ERR_INPUT (reported
 * to diag), HD_ERR_NOMEM. */
int hd_graph_parse_expression(struct hd_graph *graph, const struct hd_node *node, bool fields,
                              struct hd_diag *diag, struct hd_expr **expr_p);

/* Parses text[bytes] found at `location` as a constant number in [min, max]; `what` names it in
 * messages; `whole` demands an integer. Errors: HD_ERR_INPUT (reported to diag), HD_ERR_NOMEM. */
int hd_graph_parse_number(struct hd_graph *graph, const char *text, int64_t bytes,
                          struct hd_source_location location, const char *what, double min,
                          double max, bool whole, struct hd_diag *diag, double *number_p);

/* Returns the index of a counter, or HD_NO_COUNTER with an error told to diag. */
int hd_graph_resolve_counter(struct hd_graph *graph, const char *name,
                             struct hd_source_location location, struct hd_diag *diag);

/* Returns the place of a scalar's first character. */
struct hd_source_location hd_node_get_text_location(const struct hd_node *node);
