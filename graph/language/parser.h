/* SPDX-License-Identifier: Apache-2.0 */
/* The state of parsing a graph file, and how its mistakes are reported. One thread at a time. */
#pragma once

#include "graph/language/graph.h"

struct hd_parser {
    struct hd_graph *graph;
    struct hd_diag *diag;
    int depth; /* of repeats */
};

/* Returns whether a node is of this kind; if not, tells diag that `what` is to be one. */
bool hd_parser_expect(struct hd_parser *parser, const struct hd_node *node, enum hd_node_kind kind,
                      const char *what);

/* Returns the scalar under `key` of a map, which has a text; NULL when there is none, and when it
 * is a list, a map or nothing, which diag is told. */
const struct hd_node *hd_parser_get_scalar(struct hd_parser *parser, const struct hd_node *map,
                                           const char *key);

/* Returns the index of a value that the file declares, or HD_NO_VALUE. From graph->n_values on are
 * those that the graph is without. */
int hd_parser_find_value(const struct hd_parser *parser, const char *name);

/* Tells diag that there is no `what` called `name`, with the nearest of known[n], or else with all
 * of them. */
void hd_parser_report_unknown(struct hd_parser *parser, struct hd_source_location location,
                              const char *what, const char *name, const char *const *known, int n);

/* Tells diag that the file declares no value called `name`, with the nearest one, or else with all.
 */
void hd_parser_report_unknown_value(struct hd_parser *parser, struct hd_source_location location,
                                    const char *name);
