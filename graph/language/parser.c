/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/language/parser.h"

#include "runtime/base/config/config_setting.h"

#include <string.h>

/* A scalar without a text is what YAML reads where nothing was written. */
static bool is_of_kind(const struct hd_node *node, enum hd_node_kind kind)
{
    return node->kind == kind && (kind != HD_NODE_SCALAR || node->text[0] || node->quoted);
}

bool hd_parser_expect(struct hd_parser *parser, const struct hd_node *node, enum hd_node_kind kind,
                      const char *what)
{
    static const char *const names[] = {"a scalar", "a list", "a map"};
    if (is_of_kind(node, kind))
        return true;
    char found[HD_DESCRIPTION_BYTES];
    hd_node_describe(node, found);
    hd_diag_add_error(parser->diag, node->location, "%s: expected %s, found %s", what, names[kind],
                      found);
    return false;
}

const struct hd_node *hd_parser_get_scalar(struct hd_parser *parser, const struct hd_node *map,
                                           const char *key)
{
    const struct hd_node *node = hd_node_get(map, key);
    return node && hd_parser_expect(parser, node, HD_NODE_SCALAR, key) ? node : NULL;
}

int hd_parser_find_value(const struct hd_parser *parser, const char *name)
{
    const struct hd_graph *graph = parser->graph;
    for (int i = 0; i < graph->n_values + graph->n_absent_values; i++)
        if (strcmp(graph->values[i].spec.name, name) == 0)
            return i;
    return HD_NO_VALUE;
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
    const int n = graph->n_values + graph->n_absent_values;
    const char **names = hd_graph_alloc(parser->graph, n + 1, sizeof *names);
    for (int i = 0; names && i < n; i++)
        names[i] = graph->values[i].spec.name;
    if (names)
        hd_parser_report_unknown(parser, location, "value", name, names, n);
}
