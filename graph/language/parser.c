/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/language/parser.h"

#include "runtime/base/alloc.h"

#include <string.h>

static const char *name_kind(const struct hd_node *node)
{
    return node->kind == HD_NODE_MAP ? "a map" : node->kind == HD_NODE_LIST ? "a list" : "a scalar";
}

bool hd_parser_expect(struct hd_parser *parser, const struct hd_node *node, enum hd_node_kind kind,
                      const char *what)
{
    static const char *const names[] = {"a scalar", "a list", "a map"};
    if (node->kind == kind)
        return true;
    hd_diag_add_error(parser->diag, node->location, "%s: expected %s, found %s", what, names[kind],
                      name_kind(node));
    return false;
}

void hd_parser_report_unknown(struct hd_parser *parser, struct hd_source_location location,
                              const char *what, const char *name, const char *const *known, int n)
{
    const char *nearest = hd_find_nearest_name(name, known, n);
    if (nearest) {
        hd_diag_add_error(parser->diag, location, "unknown %s '%s' (did you mean '%s'?)", what,
                          name, nearest);
        return;
    }
    char list[512] = "";
    for (int i = 0; i < n; i++)
        if (known[i] && strlen(list) + strlen(known[i]) + 3 < sizeof list) {
            strcat(list, list[0] ? ", " : "");
            strcat(list, known[i]);
        }
    hd_diag_add_error(parser->diag, location, "unknown %s '%s': expected one of %s", what, name,
                      list);
}

void hd_parser_report_unknown_value(struct hd_parser *parser, struct hd_source_location location,
                                    const char *name)
{
    const struct hd_graph *graph = parser->graph;
    const char **names = hd_graph_alloc(parser->graph, graph->n_values + 1, sizeof *names);
    for (int i = 0; names && i < graph->n_values; i++)
        names[i] = graph->values[i].spec.name;
    if (names)
        hd_parser_report_unknown(parser, location, "value", name, names, graph->n_values);
}
