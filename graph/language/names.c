/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the names in expressions of a graph: numbers of the run file and the strategy become
 * constants; counters, attributes of values (replay.size) and fields of results become slots, which
 * the submitter or a task fills before it evaluates. Called while a graph is loaded. */
#include "graph/language/names.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

/* The graph that an expression belongs to, and whether it may name fields of results, which only
 * conditions of `stop` may. */
struct scope {
    struct hd_graph *graph;
    bool fields;
};

struct hd_source_location hd_node_get_text_location(const struct hd_node *node)
{
    struct hd_source_location location = node->location;
    location.column += node->quoted;
    return location;
}

static const char *nearest_parameter(const struct hd_graph *graph, const char *name)
{
    const char *best = NULL;
    for (int i = 0; i < graph->n_parameters && !best; i++)
        best = graph->parameters[i].word
                   ? NULL
                   : hd_find_nearest_name(name, &graph->parameters[i].name, 1);
    return best;
}

static bool find_config_number(void *arg, const char *path, double *value_p, const char **nearest_p)
{
    static const char strategy[] = "strategy.";
    const struct hd_graph *graph = ((struct scope *)arg)->graph;
    if (strncmp(path, strategy, sizeof strategy - 1) != 0)
        return hd_config_find_number(graph->config, path, value_p, nearest_p);
    const char *name = path + sizeof strategy - 1;
    for (int i = 0; i < graph->n_parameters; i++)
        if (!graph->parameters[i].word && strcmp(graph->parameters[i].name, name) == 0) {
            graph->parameters[i].used = true;
            *value_p = graph->parameters[i].value;
            return true;
        }
    *nearest_p = nearest_parameter(graph, name);
    return false;
}

/* Returns the index of the slot of this name, which is added once; -1: no memory. */
static int add_slot(struct hd_graph *graph, enum hd_slot_kind kind, int value, int index,
                    const char *name)
{
    for (int i = 0; i < graph->n_slots; i++)
        if (strcmp(graph->slots[i].name, name) == 0)
            return i;
    size_t bytes = strlen(name) + 1;
    char *copy = hd_graph_alloc(graph, (int64_t)bytes, 1);
    struct hd_slot *grown = hd_graph_alloc(graph, graph->n_slots + 1, sizeof *grown);
    if (!copy || !grown)
        return -1;
    memcpy(copy, name, bytes);
    if (graph->n_slots)
        memcpy(grown, graph->slots, (size_t)graph->n_slots * sizeof *grown);
    grown[graph->n_slots] = (struct hd_slot){kind, value, index, copy};
    graph->slots = grown;
    return graph->n_slots++;
}

static int find_attribute(const struct hd_type *type, const char *name)
{
    for (int i = 0; type->counted && type->counted[i]; i++)
        if (strcmp(type->counted[i], name) == 0)
            return i;
    return -1;
}

static const char *nearest_member(const struct hd_spec *spec, const char *name, bool fields)
{
    const char *best = NULL;
    for (int i = 0; spec->type->counted && spec->type->counted[i] && !best; i++)
        best = hd_find_nearest_name(name, &spec->type->counted[i], 1);
    const char *field;
    for (int i = 0;
         fields && !best && spec->type->field_name && (field = spec->type->field_name(spec, i));
         i++)
        best = hd_find_nearest_name(name, &field, 1);
    return best;
}

/* Finds the slot of "value.member"; -1: there is none (and perhaps a near name), or no memory. */
static int find_member_slot(const struct scope *scope, const char *name, const char *dot,
                            const char **nearest_p)
{
    struct hd_graph *graph = scope->graph;
    char value_name[128];
    size_t length = (size_t)(dot - name);
    if (length >= sizeof value_name)
        return -1;
    memcpy(value_name, name, length);
    value_name[length] = '\0';
    int value = hd_graph_find_value(graph, value_name);
    if (value == HD_NO_VALUE) {
        for (int i = 0; i < graph->n_values && !*nearest_p; i++)
            *nearest_p = hd_find_nearest_name(value_name, &graph->values[i].spec.name, 1);
        return -1;
    }
    const struct hd_spec *spec = &graph->values[value].spec;
    if (!spec->type)
        return -1;
    int attribute = find_attribute(spec->type, dot + 1);
    if (attribute >= 0)
        return add_slot(graph, HD_SLOT_ATTRIBUTE, value, attribute, name);
    int field = scope->fields ? hd_value_find_field(spec, dot + 1) : -1;
    if (field >= 0)
        return add_slot(graph, HD_SLOT_FIELD, value, field, name);
    *nearest_p = nearest_member(spec, dot + 1, scope->fields);
    return -1;
}

static int find_slot(void *arg, const char *name, const char **nearest_p)
{
    const struct scope *scope = arg;
    const char *dot = strchr(name, '.');
    if (dot)
        return find_member_slot(scope, name, dot, nearest_p);
    int counter = hd_graph_find_counter(scope->graph, name);
    if (counter != HD_NO_COUNTER)
        return add_slot(scope->graph, HD_SLOT_COUNTER, HD_NO_VALUE, counter, name);
    *nearest_p = hd_find_nearest_name(name, scope->graph->counters, scope->graph->n_counters);
    return -1;
}

static int report_no_slot(void *arg, const char *name, const char **nearest_p)
{
    (void)arg, (void)name, (void)nearest_p;
    return -1;
}

int hd_graph_parse_expression(struct hd_graph *graph, const struct hd_node *node, bool fields,
                              struct hd_diag *diag, struct hd_expr **expr_p)
{
    if (node->kind != HD_NODE_SCALAR)
        return hd_diag_add_error(diag, node->location, "expected an expression, found a %s",
                                 node->kind == HD_NODE_MAP ? "map" : "list");
    struct scope scope = {graph, fields};
    struct hd_expr_names names = {find_config_number, find_slot, &scope};
    return hd_expr_parse(node->text, hd_node_get_text_location(node), &names, diag, expr_p);
}

int hd_graph_parse_number(struct hd_graph *graph, const char *text, int64_t bytes,
                          struct hd_source_location location, const char *what, double min,
                          double max, bool whole, struct hd_diag *diag, double *number_p)
{
    struct scope scope = {graph, false};
    struct hd_expr_names names = {find_config_number, report_no_slot, &scope};
    char *copy = hd_format("%.*s", (int)bytes, text);
    struct hd_expr *expr = NULL;
    double number = 0;
    if (!copy)
        return HD_ERR_NOMEM;
    int status = hd_expr_parse(copy, location, &names, diag, &expr);
    if (status == HD_OK && (!hd_expr_is_constant(expr, &number) || !(number >= min) ||
                            !(number <= max) || (whole && number != floor(number))))
        status = hd_diag_add_error(diag, location, "%s: expected %s in [%.10g, %.10g], found '%s'",
                                   what, whole ? "an integer" : "a number", min, max, copy);
    hd_expr_destroy(expr);
    hd_free(copy);
    if (status == HD_OK)
        *number_p = number;
    return status;
}

int hd_graph_resolve_counter(struct hd_graph *graph, const char *name,
                             struct hd_source_location location, struct hd_diag *diag)
{
    int counter = hd_graph_find_counter(graph, name);
    if (counter != HD_NO_COUNTER)
        return counter;
    const char *nearest = hd_find_nearest_name(name, graph->counters, graph->n_counters);
    if (nearest)
        hd_diag_add_error(diag, location, "unknown counter '%s' (did you mean '%s'?)", name,
                          nearest);
    else
        hd_diag_add_error(diag, location,
                          "unknown counter '%s': counters are 'iteration' and what a step names in "
                          "`counts:`",
                          name);
    return HD_NO_COUNTER;
}
