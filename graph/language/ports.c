/* SPDX-License-Identifier: Apache-2.0 */
/* Called for each step while a graph is parsed. */
#include "graph/language/ports.h"

#include "graph/language/names.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* A use of a value as the file has it, before it is given a port. */
struct use {
    struct hd_ref ref;
    const char *port; /* or NULL */
};

static int parse_lag(struct hd_parser *parser, const struct hd_node *node, const char *at,
                     struct hd_ref *ref)
{
    struct hd_source_location location = hd_node_get_text_location(node);
    location.column += (int)(at - node->text);
    if (at[1] != '-')
        return hd_diag_add_error(parser->diag, location,
                                 "expected '@-' and a number of iterations, as in 'x@-1'");
    location.column += 2;
    double lag = 0;
    HD_TRY(hd_graph_parse_number(parser->graph, at + 2, (int64_t)strlen(at + 2), location, "lag", 0,
                                 1000, true, parser->diag, &lag));
    ref->lag = (int)lag;
    location.column -= 2;
    if (ref->lag > 0 && ref->mode != HD_READ)
        return hd_diag_add_error(parser->diag, location, "only a read may lag");
    if (ref->lag > 0 && parser->depth > 0)
        return hd_diag_add_error(parser->diag, location,
                                 "a lag counts iterations: not inside a repeat");
    return HD_OK;
}

static int parse_use(struct hd_parser *parser, const struct hd_node *item, enum hd_mode mode,
                     struct use *use)
{
    use->ref = (struct hd_ref){.value = HD_NO_VALUE, .mode = mode, .location = item->location};
    if (item->kind == HD_NODE_MAP && item->count == 1) {
        use->port = item->keys[0]->text;
        item = item->items[0];
    }
    if (!hd_parser_expect(parser, item, HD_NODE_SCALAR, "a use is `value` or `port: value`"))
        return HD_ERR_INPUT;
    const char *at = strchr(item->text, '@');
    char *name =
        hd_format("%.*s", (int)(at ? at - item->text : (int64_t)strlen(item->text)), item->text);
    if (!name)
        return HD_ERR_NOMEM;
    use->ref.value = hd_parser_find_value(parser, name);
    if (use->ref.value == HD_NO_VALUE)
        hd_parser_report_unknown_value(parser, hd_node_get_text_location(item), name);
    hd_free(name);
    return at ? parse_lag(parser, item, at, &use->ref) : HD_OK;
}

static const char *name_mode(enum hd_mode mode)
{
    return mode == HD_READ ? "reads" : mode == HD_WRITE ? "writes" : "updates";
}

static int parse_uses(struct hd_parser *parser, const struct hd_node *map, struct use **uses_p,
                      int *n_p)
{
    static const enum hd_mode modes[] = {HD_READ, HD_WRITE, HD_UPDATE};
    int64_t total = 0;
    for (int i = 0; i < 3; i++) {
        const struct hd_node *list = hd_node_get(map, name_mode(modes[i]));
        if (list && !hd_parser_expect(parser, list, HD_NODE_LIST, name_mode(modes[i])))
            return HD_ERR_INPUT;
        total += list ? list->count : 0;
    }
    struct use *uses = hd_graph_alloc(parser->graph, total + 1, sizeof *uses);
    if (!uses)
        return HD_ERR_NOMEM;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        const struct hd_node *list = hd_node_get(map, name_mode(modes[i]));
        for (int64_t j = 0; list && j < list->count; j++)
            parse_use(parser, list->items[j], modes[i], &uses[n++]);
    }
    *uses_p = uses;
    *n_p = n;
    return HD_OK;
}

static bool port_accepts(const struct hd_graph *graph, const struct hd_port *port,
                         const struct use *use)
{
    if (use->port)
        return strcmp(use->port, port->name) == 0;
    if (port->mode != use->ref.mode || use->ref.value == HD_NO_VALUE)
        return false;
    const struct hd_type *type = graph->values[use->ref.value].spec.type;
    return !port->type || !type || strcmp(port->type, type->name) == 0;
}

/* Returns the port of a use, or -1: the one it names, else the free one of its mode and type that
 * is called as the value is, else the first free one of its mode and type. */
static int choose_port(const struct hd_graph *graph, const struct hd_step *step, int n_ports,
                       const struct use *use)
{
    int first = -1;
    for (int i = 0; i < n_ports; i++) {
        const struct hd_port *port = &step->verb->ports[i];
        if (step->refs[i].value != HD_NO_VALUE || !port_accepts(graph, port, use))
            continue;
        if (use->port || strcmp(port->name, graph->values[use->ref.value].spec.name) == 0)
            return i;
        if (first < 0)
            first = i;
    }
    return first;
}

static void assign_ports(struct hd_parser *parser, struct hd_step *step, const struct use *uses,
                         int n, int n_ports)
{
    struct hd_graph *graph = parser->graph;
    for (int i = 0; i < n; i++) {
        if (uses[i].ref.value == HD_NO_VALUE)
            continue;
        const struct hd_spec *spec = &graph->values[uses[i].ref.value].spec;
        int port = choose_port(graph, step, n_ports, &uses[i]);
        if (port >= 0) {
            const struct hd_port *taken = &step->verb->ports[port];
            if (taken->mode != uses[i].ref.mode)
                hd_diag_add_error(parser->diag, uses[i].ref.location,
                                  "port '%s' of %s belongs under `%s`", taken->name,
                                  step->verb->name, name_mode(taken->mode));
            else if (taken->type && spec->type && strcmp(taken->type, spec->type->name) != 0)
                hd_diag_add_error(
                    parser->diag, uses[i].ref.location,
                    "port '%s' of %s takes a value of type %s, but '%s' is of type %s", taken->name,
                    step->verb->name, taken->type, spec->name, spec->type->name);
            step->refs[port] = uses[i].ref;
        } else if (uses[i].port) {
            const char *names[HD_PORTS_MAX];
            for (int j = 0; j < n_ports; j++)
                names[j] = step->verb->ports[j].name;
            hd_parser_report_unknown(parser, uses[i].ref.location, "port", uses[i].port, names,
                                     n_ports);
        } else {
            hd_diag_add_error(parser->diag, uses[i].ref.location,
                              "%s has no free port under `%s` for '%s' of type %s",
                              step->verb->name, name_mode(uses[i].ref.mode), spec->name,
                              spec->type ? spec->type->name : "unknown");
        }
    }
    for (int i = 0; i < n_ports; i++) {
        const struct hd_port *port = &step->verb->ports[i];
        if (step->refs[i].value == HD_NO_VALUE && !port->optional &&
            hd_diag_count(parser->diag) == 0)
            hd_diag_add_error(parser->diag, step->location,
                              "%s needs a value%s%s under `%s` (port '%s')", step->verb->name,
                              port->type ? " of type " : "", port->type ? port->type : "",
                              name_mode(port->mode), port->name);
    }
}

/* Leaves out values that the graph is without, and says that it is without the step if this needs
 * one of them or reads no other. */
static void leave_out_values(const struct hd_graph *graph, struct hd_step *step)
{
    int left = 0, lost = 0, n = 0;
    for (int i = 0; i < step->n_refs; i++) {
        struct hd_ref *ref = &step->refs[i];
        const bool absent = ref->value >= graph->n_values;
        left += ref->mode == HD_READ && ref->value != HD_NO_VALUE && !absent;
        lost += ref->mode == HD_READ && absent;
        if (absent)
            step->absent |= !step->verb->many && !step->verb->ports[i].optional;
        if (absent)
            ref->value = HD_NO_VALUE;
        if (!absent || !step->verb->many)
            step->refs[n++] = *ref;
    }
    step->n_refs = n;
    step->absent |= lost > 0 && left == 0;
}

int hd_ports_read(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map)
{
    struct use *uses;
    int n, n_ports = 0;
    HD_TRY(parse_uses(parser, map, &uses, &n));
    while (step->verb->ports[n_ports].name)
        n_ports++;
    step->n_refs = step->verb->many ? n : n_ports;
    step->refs = hd_graph_alloc(parser->graph, step->n_refs + 1, sizeof *step->refs);
    if (!step->refs)
        return HD_ERR_NOMEM;
    for (int i = 0; i < step->n_refs; i++)
        step->refs[i].value = HD_NO_VALUE;
    if (!step->verb->many) {
        assign_ports(parser, step, uses, n, n_ports);
        leave_out_values(parser->graph, step);
        return HD_OK;
    }
    if (n > HD_PORTS_MAX)
        return hd_diag_add_error(parser->diag, step->location, "%s takes at most %d values",
                                 step->verb->name, HD_PORTS_MAX);
    for (int i = 0; i < n; i++) {
        step->refs[i] = uses[i].ref;
        if (uses[i].ref.mode != step->verb->ports[0].mode)
            hd_diag_add_error(parser->diag, uses[i].ref.location, "%s takes values under `%s` only",
                              step->verb->name, name_mode(step->verb->ports[0].mode));
    }
    leave_out_values(parser->graph, step);
    return HD_OK;
}
