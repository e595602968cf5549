/* SPDX-License-Identifier: Apache-2.0 */
/* Names inside a graph file: numbers of the config and the strategy, counters, attributes, fields.
 */
#ifndef HD_GRAPH_LANGUAGE_NAMES_H
#define HD_GRAPH_LANGUAGE_NAMES_H

#include "graph/language/graph.h"

/* Parses a scalar as an expression over the graph's names. Fields of values (data) may be named
 * only if `fields`. Errors go to diag (HD_ERR_INPUT). Released by hd_expr_destroy. */
int hd_graph_parse_expression(struct hd_graph *graph, const struct hd_node *node, bool fields,
                              struct hd_diag *diag, struct hd_expr **expr_p);

/* Parses text[bytes] found at `location` as a constant number in [min, max]; `what` names it in
 * messages; `whole` demands an integer. */
int hd_graph_parse_number(struct hd_graph *graph, const char *text, int64_t bytes,
                          struct hd_source_location location, const char *what, double min,
                          double max, bool whole, struct hd_diag *diag, double *number_p);

/* Index of a counter, or HD_NO_COUNTER after telling diag. */
int hd_graph_find_counter(struct hd_graph *graph, const char *name,
                          struct hd_source_location location, struct hd_diag *diag);

/* The place of a scalar's first character. */
struct hd_source_location hd_node_get_text_location(const struct hd_node *node);

#endif
