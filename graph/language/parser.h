/* SPDX-License-Identifier: Apache-2.0 */
/* Between parse.c and ports.c: the state of reading a graph file, and how mistakes are told. */
#ifndef HD_GRAPH_LANGUAGE_PARSER_H
#define HD_GRAPH_LANGUAGE_PARSER_H

#include "graph/language/graph.h"

struct hd_parser {
    struct hd_graph *graph;
    struct hd_diag *diag;
    int depth; /* of repeats */
};

/* Whether a node is of this kind; if not, tells diag what `what` should have been. */
bool hd_parser_expect(struct hd_parser *parser, const struct hd_node *node, enum hd_node_kind kind,
                      const char *what);

/* Tells diag that `name` is no `what`, with the nearest of known[n], or else all of them. */
void hd_parser_report_unknown(struct hd_parser *parser, struct hd_source_location location,
                              const char *what, const char *name, const char *const *known, int n);

/* The same for a value of the graph. */
void hd_parser_report_unknown_value(struct hd_parser *parser, struct hd_source_location location,
                                    const char *name);

/* Reads the uses under reads, writes and updates of a step and gives each a port of its verb.
 * Mistakes go to diag. Errors: HD_ERR_NOMEM, HD_ERR_INPUT. */
int hd_parser_read_ports(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map);

#endif
