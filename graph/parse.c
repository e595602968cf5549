/* SPDX-License-Identifier: Apache-2.0 */
/* From the trees of the files to values and steps: structure, names and expressions. */
#include "graph/graph.h"
#include "graph/names.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <string.h>

struct parser {
    struct hd_graph *graph;
    struct hd_diag *diag;
    int depth;
};

static const char *kind_name(const struct hd_node *node)
{
    return node->kind == HD_NODE_MAP ? "a map" : node->kind == HD_NODE_LIST ? "a list" : "a scalar";
}

static bool expect(struct parser *parser, const struct hd_node *node, enum hd_node_kind kind,
                   const char *what)
{
    static const char *const names[] = {"a scalar", "a list", "a map"};
    if (node->kind == kind)
        return true;
    hd_diag_error(parser->diag, node->mark, "%s: expected %s, found %s", what, names[kind],
                  kind_name(node));
    return false;
}

static void unknown(struct parser *parser, struct hd_mark mark, const char *what, const char *name,
                    const char *const *known, int n)
{
    const char *nearest = hd_nearest_name(name, known, n);
    if (nearest) {
        hd_diag_error(parser->diag, mark, "unknown %s '%s' (did you mean '%s'?)", what, name,
                      nearest);
        return;
    }
    char list[512] = "";
    for (int i = 0; i < n; i++)
        if (known[i] && strlen(list) + strlen(known[i]) + 3 < sizeof list) {
            strcat(list, list[0] ? ", " : "");
            strcat(list, known[i]);
        }
    hd_diag_error(parser->diag, mark, "unknown %s '%s': expected one of %s", what, name, list);
}

static void check_keys(struct parser *parser, const struct hd_node *map, const char *what,
                       const char *const *known, int n)
{
    for (int64_t i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;
        bool found = false;
        for (int j = 0; j < n && !found; j++)
            found = strcmp(key, known[j]) == 0;
        if (!found)
            unknown(parser, map->keys[i]->mark, what, key, known, n);
    }
}

static int parse_number(struct parser *parser, const struct hd_node *node, const char *what,
                        double min, double max, bool whole, double *number_p)
{
    if (!expect(parser, node, HD_NODE_SCALAR, what))
        return HD_ERR_INPUT;
    return hd_graph_number(parser->graph, node->text, (int64_t)strlen(node->text),
                           hd_node_text_mark(node), what, min, max, whole, parser->diag, number_p);
}

/* -- Strategy -----------------------------------------------------------------------------------
 */

static int parse_knobs(struct parser *parser, const struct hd_node *defaults)
{
    struct hd_graph *graph = parser->graph;
    if (!defaults || !expect(parser, defaults, HD_NODE_MAP, "strategy"))
        return HD_OK;
    graph->knobs = hd_graph_alloc(graph, defaults->count, sizeof *graph->knobs);
    if (!graph->knobs)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < defaults->count; i++) {
        struct hd_knob knob = {.name = defaults->keys[i]->text};
        parse_number(parser, defaults->items[i], knob.name, 0, 1e9, false, &knob.value);
        graph->knobs[graph->n_knobs++] = knob;
    }
    return HD_OK;
}

static int override_knobs(struct parser *parser, const struct hd_node *map)
{
    struct hd_graph *graph = parser->graph;
    if (!expect(parser, map, HD_NODE_MAP, "strategy"))
        return HD_ERR_INPUT;
    const char **names = hd_graph_alloc(graph, graph->n_knobs + 1, sizeof *names);
    if (!names)
        return HD_ERR_NOMEM;
    for (int i = 0; i < graph->n_knobs; i++)
        names[i] = graph->knobs[i].name;
    check_keys(parser, map, "strategy number", names, graph->n_knobs);
    for (int64_t i = 0; i < map->count; i++)
        for (int j = 0; j < graph->n_knobs; j++)
            if (strcmp(map->keys[i]->text, names[j]) == 0)
                parse_number(parser, map->items[i], names[j], 0, 1e9, false,
                             &graph->knobs[j].value);
    return HD_OK;
}

/* -- Values -------------------------------------------------------------------------------------
 */

static const char *const value_keys[] = {"type", "per",  "place", "of",
                                         "init", "role", "parts", "slots"};

static void parse_type(struct parser *parser, struct hd_graph_value *value)
{
    const struct hd_registry *registry = parser->graph->registry;
    const struct hd_node *node = hd_node_get(value->node, "type");
    if (!node) {
        hd_diag_error(parser->diag, value->node->mark, "value '%s' needs a type", value->spec.name);
        return;
    }
    if (!expect(parser, node, HD_NODE_SCALAR, "type"))
        return;
    value->spec.type = hd_registry_type(registry, node->text);
    const char *names[64];
    int n = 0;
    for (; registry->types[n] && n < 64; n++)
        names[n] = registry->types[n]->name;
    if (!value->spec.type)
        unknown(parser, node->mark, "type", node->text, names, n);
    else
        while (value->spec.type->counted && value->spec.type->counted[value->n_attributes])
            value->n_attributes++;
}

static void parse_placement(struct parser *parser, struct hd_graph_value *value)
{
    static const char *const places[] = {"global", "rank0"};
    const struct hd_node *per = hd_node_get(value->node, "per");
    const struct hd_node *place = hd_node_get(value->node, "place");
    value->spec.placement = HD_GLOBAL;
    if (per && place)
        hd_diag_error(parser->diag, place->mark, "give either `per: shard` or `place:`, not both");
    if (per && expect(parser, per, HD_NODE_SCALAR, "per")) {
        value->spec.placement = HD_SHARD;
        if (strcmp(per->text, "shard") != 0)
            hd_diag_error(parser->diag, per->mark, "per: expected 'shard', found '%s'", per->text);
    }
    if (place && expect(parser, place, HD_NODE_SCALAR, "place")) {
        if (strcmp(place->text, "rank0") == 0)
            value->spec.placement = HD_RANK0;
        else if (strcmp(place->text, "global") != 0)
            unknown(parser, place->mark, "place", place->text, places, 2);
    }
}

static const struct hd_spec *parse_other(struct parser *parser, struct hd_graph_value *value,
                                         const char *key)
{
    struct hd_graph *graph = parser->graph;
    const struct hd_node *node = hd_node_get(value->node, key);
    if (!node || !expect(parser, node, HD_NODE_SCALAR, key))
        return NULL;
    int other = hd_graph_find(graph, node->text);
    if (other != HD_NO_VALUE && &graph->values[other] < value)
        return &graph->values[other].spec;
    if (other != HD_NO_VALUE) {
        hd_diag_error(parser->diag, node->mark, "%s: '%s' must be declared before '%s'", key,
                      node->text, value->spec.name);
        return NULL;
    }
    const char **names = hd_graph_alloc(graph, graph->n_values, sizeof *names);
    for (int i = 0; names && i < graph->n_values; i++)
        names[i] = graph->values[i].spec.name;
    if (names)
        unknown(parser, node->mark, "value", node->text, names, graph->n_values);
    return NULL;
}

static void parse_value(struct parser *parser, struct hd_graph_value *value)
{
    if (!expect(parser, value->node, HD_NODE_MAP, value->spec.name))
        return;
    check_keys(parser, value->node, "key of a value", value_keys,
               sizeof value_keys / sizeof *value_keys);
    parse_type(parser, value);
    parse_placement(parser, value);
    value->spec.of = parse_other(parser, value, "of");
    value->spec.init = parse_other(parser, value, "init");
    const struct hd_node *role = hd_node_get(value->node, "role");
    if (role && expect(parser, role, HD_NODE_SCALAR, "role"))
        value->spec.role = role->text;
    const struct hd_node *parts = hd_node_get(value->node, "parts");
    if (parts)
        parse_number(parser, parts, "parts", 1e-3, 1e6, false, &value->spec.part_mb);
    const struct hd_node *slots = hd_node_get(value->node, "slots");
    double number = 1;
    if (slots)
        parse_number(parser, slots, "slots", 1, 64, true, &number);
    value->slots = (int)number;
}

static int parse_values(struct parser *parser, const struct hd_node *map)
{
    struct hd_graph *graph = parser->graph;
    if (!expect(parser, map, HD_NODE_MAP, "values"))
        return HD_ERR_INPUT;
    graph->values = hd_graph_alloc(graph, map->count, sizeof *graph->values);
    if (!graph->values)
        return HD_ERR_NOMEM;
    graph->n_values = (int)map->count;
    for (int i = 0; i < graph->n_values; i++) {
        const char *name = map->keys[i]->text;
        graph->values[i] = (struct hd_graph_value){
            .spec = {.name = name, .mark = map->keys[i]->mark, .parts = 1},
            .node = map->items[i],
            .slots = 1,
        };
        for (const char *c = name; *c; c++)
            if (!isalnum((unsigned char)*c) && *c != '_') {
                hd_diag_error(parser->diag, map->keys[i]->mark,
                              "value '%s': names are made of letters, digits and '_'", name);
                break;
            }
    }
    for (int i = 0; i < graph->n_values; i++)
        parse_value(parser, &graph->values[i]);
    return HD_OK;
}

/* -- Steps --------------------------------------------------------------------------------------
 */

static const char *const step_keys[] = {"reads", "writes", "updates", "every", "first",
                                        "when",  "counts", "if",      "reason"};
enum { N_STEP_KEYS = sizeof step_keys / sizeof *step_keys, STOP_KEYS = 2, OPTIONS_MAX = 32 };

/* A use as it stands in the file, before it is given a port. */
struct use {
    struct hd_ref ref;
    const char *port; /* or NULL */
};

static int parse_lag(struct parser *parser, const struct hd_node *node, const char *at,
                     struct hd_ref *ref)
{
    struct hd_mark mark = hd_node_text_mark(node);
    mark.column += (int)(at - node->text);
    if (at[1] != '-')
        return hd_diag_error(parser->diag, mark,
                             "expected '@-' and a number of iterations, as in 'x@-1'");
    mark.column += 2;
    double lag = 0;
    HD_TRY(hd_graph_number(parser->graph, at + 2, (int64_t)strlen(at + 2), mark, "lag", 0, 1000,
                           true, parser->diag, &lag));
    ref->lag = (int)lag;
    mark.column -= 2;
    if (ref->lag > 0 && ref->mode != HD_READ)
        return hd_diag_error(parser->diag, mark, "only a read may lag");
    if (ref->lag > 0 && parser->depth > 0)
        return hd_diag_error(parser->diag, mark, "a lag counts iterations: not inside a repeat");
    return HD_OK;
}

static int parse_use(struct parser *parser, const struct hd_node *item, enum hd_mode mode,
                     struct use *use)
{
    struct hd_graph *graph = parser->graph;
    use->ref = (struct hd_ref){.value = HD_NO_VALUE, .mode = mode, .mark = item->mark};
    if (item->kind == HD_NODE_MAP && item->count == 1) {
        use->port = item->keys[0]->text;
        item = item->items[0];
    }
    if (!expect(parser, item, HD_NODE_SCALAR, "a use is `value` or `port: value`"))
        return HD_ERR_INPUT;
    const char *at = strchr(item->text, '@');
    char *name =
        hd_format("%.*s", (int)(at ? at - item->text : (int64_t)strlen(item->text)), item->text);
    if (!name)
        return HD_ERR_NOMEM;
    use->ref.value = hd_graph_find(graph, name);
    if (use->ref.value == HD_NO_VALUE) {
        const char **names = hd_graph_alloc(graph, graph->n_values + 1, sizeof *names);
        for (int i = 0; names && i < graph->n_values; i++)
            names[i] = graph->values[i].spec.name;
        if (names)
            unknown(parser, hd_node_text_mark(item), "value", name, names, graph->n_values);
    }
    hd_free(name);
    return at ? parse_lag(parser, item, at, &use->ref) : HD_OK;
}

static int parse_uses(struct parser *parser, const struct hd_node *map, struct use **uses_p,
                      int *n_p)
{
    static const enum hd_mode modes[] = {HD_READ, HD_WRITE, HD_UPDATE};
    int64_t total = 0;
    for (int i = 0; i < 3; i++) {
        const struct hd_node *list = hd_node_get(map, step_keys[i]);
        if (list && !expect(parser, list, HD_NODE_LIST, step_keys[i]))
            return HD_ERR_INPUT;
        total += list ? list->count : 0;
    }
    struct use *uses = hd_graph_alloc(parser->graph, total + 1, sizeof *uses);
    if (!uses)
        return HD_ERR_NOMEM;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        const struct hd_node *list = hd_node_get(map, step_keys[i]);
        for (int64_t j = 0; list && j < list->count; j++)
            parse_use(parser, list->items[j], modes[i], &uses[n++]);
    }
    *uses_p = uses;
    *n_p = n;
    return HD_OK;
}

static const char *mode_name(enum hd_mode mode)
{
    return mode == HD_READ ? "reads" : mode == HD_WRITE ? "writes" : "updates";
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

/* The port of a use: by its name, else a free one of its mode and type, preferably called as the
 * value is, else the first in order. -1: none. */
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

static void assign_ports(struct parser *parser, struct hd_step *step, const struct use *uses, int n,
                         int n_ports)
{
    struct hd_graph *graph = parser->graph;
    for (int i = 0; i < n; i++) {
        if (uses[i].ref.value == HD_NO_VALUE)
            continue;
        const struct hd_spec *spec = &graph->values[uses[i].ref.value].spec;
        int port = choose_port(graph, step, n_ports, &uses[i]);
        if (port >= 0) {
            const struct hd_port *is = &step->verb->ports[port];
            if (is->mode != uses[i].ref.mode)
                hd_diag_error(parser->diag, uses[i].ref.mark, "port '%s' of %s stands under `%s`",
                              is->name, step->verb->name, mode_name(is->mode));
            else if (is->type && spec->type && strcmp(is->type, spec->type->name) != 0)
                hd_diag_error(parser->diag, uses[i].ref.mark,
                              "port '%s' of %s takes a value of type %s, but '%s' is of type %s",
                              is->name, step->verb->name, is->type, spec->name, spec->type->name);
            step->refs[port] = uses[i].ref;
        } else if (uses[i].port) {
            const char *names[HD_PORTS_MAX];
            for (int j = 0; j < n_ports; j++)
                names[j] = step->verb->ports[j].name;
            unknown(parser, uses[i].ref.mark, "port", uses[i].port, names, n_ports);
        } else {
            hd_diag_error(parser->diag, uses[i].ref.mark,
                          "%s has no free port under `%s` for '%s' of type %s", step->verb->name,
                          mode_name(uses[i].ref.mode), spec->name,
                          spec->type ? spec->type->name : "unknown");
        }
    }
    for (int i = 0; i < n_ports; i++) {
        const struct hd_port *port = &step->verb->ports[i];
        if (step->refs[i].value == HD_NO_VALUE && !port->optional &&
            hd_diag_count(parser->diag) == 0)
            hd_diag_error(parser->diag, step->mark, "%s needs a value%s%s under `%s` (port '%s')",
                          step->verb->name, port->type ? " of type " : "",
                          port->type ? port->type : "", mode_name(port->mode), port->name);
    }
}

static int parse_ports(struct parser *parser, struct hd_step *step, const struct hd_node *map)
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
        return HD_OK;
    }
    if (n > HD_PORTS_MAX)
        return hd_diag_error(parser->diag, step->mark, "%s takes at most %d values",
                             step->verb->name, HD_PORTS_MAX);
    for (int i = 0; i < n; i++) {
        step->refs[i] = uses[i].ref;
        if (uses[i].ref.mode != step->verb->ports[0].mode)
            hd_diag_error(parser->diag, uses[i].ref.mark, "%s takes values under `%s` only",
                          step->verb->name, mode_name(step->verb->ports[0].mode));
    }
    return HD_OK;
}

/* "N counter": N an expression of the config, e.g. "$policy.eval.evaluator.eval_freq update". */
static int parse_every(struct parser *parser, struct hd_step *step, const struct hd_node *map)
{
    const struct hd_node *node = hd_node_get(map, "every");
    const struct hd_node *first = hd_node_get(map, "first");
    if (!node && first)
        return hd_diag_error(parser->diag, first->mark, "`first` goes with `every`");
    if (!node || !expect(parser, node, HD_NODE_SCALAR, "every"))
        return HD_OK;
    const char *space = strrchr(node->text, ' ');
    if (!space || !space[1])
        return hd_diag_error(parser->diag, node->mark,
                             "every: expected a number and a counter, as in '100 update', found "
                             "'%s'",
                             node->text);
    struct hd_mark mark = hd_node_text_mark(node), counter_mark = mark;
    counter_mark.column += (int)(space + 1 - node->text);
    double number = 1;
    int status = hd_graph_number(parser->graph, node->text, space - node->text, mark, "every", 1,
                                 1e15, true, parser->diag, &number);
    step->every = (int64_t)number;
    step->every_counter = hd_graph_counter(parser->graph, space + 1, counter_mark, parser->diag);
    number = (double)step->every;
    if (first)
        status = parse_number(parser, first, "first", 0, 1e15, true, &number);
    step->first = (int64_t)number;
    return status;
}

static int parse_when(struct parser *parser, struct hd_step *step, const struct hd_node *map)
{
    const struct hd_node *node = hd_node_get(map, "when");
    return node ? hd_graph_expression(parser->graph, node, false, parser->diag, &step->when)
                : HD_OK;
}

static void check_options(struct parser *parser, const struct hd_step *step,
                          const struct hd_node *map)
{
    const char *known[N_STEP_KEYS + OPTIONS_MAX];
    int n = 0;
    for (int i = 0; i < N_STEP_KEYS - (step->verb->kind == HD_VERB_STOP ? 0 : STOP_KEYS); i++)
        known[n++] = step_keys[i];
    const struct hd_option *option = step->verb->options;
    for (; option && option->name && n < N_STEP_KEYS + OPTIONS_MAX; option++) {
        known[n++] = option->name;
        const struct hd_node *node = hd_node_get(map, option->name);
        if (!node && option->required)
            hd_diag_error(parser->diag, step->mark, "%s needs the option '%s'%s%s",
                          step->verb->name, option->name, option->choices ? ", one of " : "",
                          option->choices ? option->choices : "");
        if (node && expect(parser, node, HD_NODE_SCALAR, option->name) && option->choices) {
            char padded[256], wanted[256];
            snprintf(padded, sizeof padded, "|%s|", option->choices);
            snprintf(wanted, sizeof wanted, "|%s|", node->text);
            if (!strstr(padded, wanted))
                hd_diag_error(parser->diag, node->mark, "%s: expected %s, found '%s'", option->name,
                              option->choices, node->text);
        }
    }
    check_keys(parser, map, "key of a step", known, n);
}

static const char *make_label(struct parser *parser, const struct hd_step *step)
{
    bool collective =
        step->verb->kind == HD_VERB_COLLECTIVE || step->verb->kind == HD_VERB_BROADCAST;
    if (!collective || step->refs[0].value == HD_NO_VALUE)
        return step->verb->name;
    const char *value = parser->graph->values[step->refs[0].value].spec.name;
    size_t bytes = strlen(step->verb->name) + strlen(value) + 3;
    char *label = hd_graph_alloc(parser->graph, (int64_t)bytes, 1);
    if (!label)
        return step->verb->name;
    snprintf(label, bytes, "%s(%s)", step->verb->name, value);
    return label;
}

static int parse_stop(struct parser *parser, struct hd_step *step, const struct hd_node *map)
{
    const struct hd_node *reason = hd_node_get(map, "reason");
    if (!hd_node_get(map, "if"))
        return hd_diag_error(parser->diag, step->mark, "stop needs a condition: `if:`");
    step->reason = "stop";
    if (reason && expect(parser, reason, HD_NODE_SCALAR, "reason"))
        step->reason = reason->text;
    return HD_OK;
}

static int parse_verb(struct parser *parser, struct hd_step *step, const struct hd_node *key,
                      const struct hd_node *map)
{
    const struct hd_registry *registry = parser->graph->registry;
    step->verb = hd_registry_verb(registry, key->text);
    if (!step->verb) {
        const char *names[128];
        int n = 0;
        for (; registry->verbs[n] && n < 127; n++)
            names[n] = registry->verbs[n]->name;
        names[n++] = "repeat";
        unknown(parser, key->mark, "verb", key->text, names, n);
        return HD_ERR_INPUT;
    }
    if (!expect(parser, map, HD_NODE_MAP, key->text))
        return HD_ERR_INPUT;
    step->options = map;
    check_options(parser, step, map);
    HD_TRY(parse_ports(parser, step, map));
    parse_every(parser, step, map);
    parse_when(parser, step, map);
    step->label = make_label(parser, step);
    const struct hd_node *counts = hd_node_get(map, "counts");
    if (counts)
        step->counts = hd_graph_counter(parser->graph, counts->text, counts->mark, parser->diag);
    return step->verb->kind == HD_VERB_STOP ? parse_stop(parser, step, map) : HD_OK;
}

static int parse_steps(struct parser *parser, const struct hd_node *list, struct hd_step **steps_p,
                       int *n_p);

static int parse_repeat(struct parser *parser, struct hd_step *step, const struct hd_node *map)
{
    static const char *const keys[] = {"repeat", "when", "do"};
    check_keys(parser, map, "key of a repeat", keys, 3);
    step->label = "repeat";
    double times = 1;
    parse_number(parser, map->items[0], "repeat", 1, 1e9, true, &times);
    step->times = (int64_t)times;
    parse_when(parser, step, map);
    const struct hd_node *body = hd_node_get(map, "do");
    if (!body)
        return hd_diag_error(parser->diag, step->mark, "a repeat needs steps: `do:`");
    parser->depth++;
    int status = parse_steps(parser, body, &step->steps, &step->n_steps);
    parser->depth--;
    return status;
}

static int parse_step(struct parser *parser, const struct hd_node *node, struct hd_step *step)
{
    *step = (struct hd_step){.index = parser->graph->total_steps++,
                             .mark = node->mark,
                             .label = "step",
                             .depth = parser->depth,
                             .counts = HD_NO_COUNTER};
    if (!expect(parser, node, HD_NODE_MAP, "a step is `verb: {…}`"))
        return HD_ERR_INPUT;
    if (node->count > 0 && strcmp(node->keys[0]->text, "repeat") == 0)
        return parse_repeat(parser, step, node);
    if (node->count != 1)
        return hd_diag_error(parser->diag, node->mark,
                             "a step has one key, its verb; found %lld keys",
                             (long long)node->count);
    return parse_verb(parser, step, node->keys[0], node->items[0]);
}

static int parse_steps(struct parser *parser, const struct hd_node *list, struct hd_step **steps_p,
                       int *n_p)
{
    if (!expect(parser, list, HD_NODE_LIST, "steps"))
        return HD_ERR_INPUT;
    struct hd_step *steps = hd_graph_alloc(parser->graph, list->count + 1, sizeof *steps);
    if (!steps)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < list->count; i++)
        if (parse_step(parser, list->items[i], &steps[i]) == HD_ERR_NOMEM)
            return HD_ERR_NOMEM;
    *steps_p = steps;
    *n_p = (int)list->count;
    return HD_OK;
}

/* Counters are declared by use: every `counts: NAME` below a list of steps. */
static int find_counters(struct parser *parser, const struct hd_node *list)
{
    struct hd_graph *graph = parser->graph;
    for (int64_t i = 0; list->kind == HD_NODE_LIST && i < list->count; i++) {
        const struct hd_node *step = list->items[i], *body = hd_node_get(step, "do");
        if (body)
            HD_TRY(find_counters(parser, body));
        if (step->kind != HD_NODE_MAP || step->count == 0)
            continue;
        const struct hd_node *counts = hd_node_get(step->items[0], "counts");
        if (!counts || !expect(parser, counts, HD_NODE_SCALAR, "counts"))
            continue;
        bool known = false;
        for (int j = 0; j < graph->n_counters; j++)
            known |= strcmp(graph->counters[j], counts->text) == 0;
        if (known)
            continue;
        const char **grown = hd_graph_alloc(graph, graph->n_counters + 1, sizeof *grown);
        if (!grown)
            return HD_ERR_NOMEM;
        memcpy(grown, graph->counters, (size_t)graph->n_counters * sizeof *grown);
        grown[graph->n_counters++] = counts->text;
        graph->counters = grown;
    }
    return HD_OK;
}

int hd_graph_parse(struct hd_graph *graph, const struct hd_graph_source *source,
                   struct hd_diag *diag)
{
    static const char *const keys[] = {"strategy", "values", "iteration"};
    struct parser parser = {graph, diag, 0};
    const struct hd_node *root = source->graph;
    if (!expect(&parser, root, HD_NODE_MAP, "a graph"))
        return HD_ERR_INPUT;
    check_keys(&parser, root, "key of a graph", keys, 3);
    const struct hd_node *values = hd_node_get(root, "values");
    const struct hd_node *iteration = hd_node_get(root, "iteration");
    if (!values || !iteration)
        return hd_diag_error(diag, root->mark, "a graph needs `%s:`",
                             values ? "iteration" : "values");
    HD_TRY(parse_knobs(&parser, hd_node_get(root, "strategy")));
    for (int i = 0; i < source->n_strategies; i++)
        HD_TRY(override_knobs(&parser, source->strategies[i]));
    HD_TRY(parse_values(&parser, values));
    graph->counters = hd_graph_alloc(graph, 1, sizeof *graph->counters);
    if (!graph->counters)
        return HD_ERR_NOMEM;
    graph->counters[graph->n_counters++] = "iteration";
    HD_TRY(find_counters(&parser, iteration));
    return parse_steps(&parser, iteration, &graph->steps, &graph->n_steps);
}
