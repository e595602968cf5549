/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/language/parse.h"

#include "graph/language/names.h"
#include "graph/language/ports.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <string.h>

static void check_keys(struct hd_parser *parser, const struct hd_node *map, const char *what,
                       const char *const *known, int n)
{
    for (int64_t i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;
        bool found = false;
        for (int j = 0; j < n && !found; j++)
            found = strcmp(key, known[j]) == 0;
        if (!found)
            hd_parser_report_unknown(parser, map->keys[i]->location, what, key, known, n);
    }
}

static int parse_number(struct hd_parser *parser, const struct hd_node *node, const char *what,
                        double min, double max, bool whole, double *number_p)
{
    if (!hd_parser_expect(parser, node, HD_NODE_SCALAR, what))
        return HD_ERR_INPUT;
    return hd_graph_parse_number(parser->graph, node->text, (int64_t)strlen(node->text),
                                 hd_node_get_text_location(node), what, min, max, whole,
                                 parser->diag, number_p);
}

/* -- Strategy ---------------------------------------------------------------------------------- */

/* Returns whether a node says a word, such as bf16, and no number. */
static bool is_word(const struct hd_node *node)
{
    const char *c = node->kind == HD_NODE_SCALAR ? node->text : "";
    if (!isalpha((unsigned char)*c))
        return false;
    while (isalnum((unsigned char)*c) || *c == '_')
        c++;
    return !*c;
}

static int parse_parameters(struct hd_parser *parser, const struct hd_node *defaults)
{
    struct hd_graph *graph = parser->graph;
    if (!defaults || !hd_parser_expect(parser, defaults, HD_NODE_MAP, "strategy"))
        return HD_OK;
    graph->parameters = hd_graph_alloc(graph, defaults->count, sizeof *graph->parameters);
    if (!graph->parameters)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < defaults->count; i++) {
        struct hd_strategy_parameter parameter = {.name = defaults->keys[i]->text};
        if (is_word(defaults->items[i]))
            parameter.word = defaults->items[i]->text;
        else
            parse_number(parser, defaults->items[i], parameter.name, 0, 1e9, false,
                         &parameter.value);
        graph->parameters[graph->n_parameters++] = parameter;
    }
    return HD_OK;
}

static void override_parameter(struct hd_parser *parser, const struct hd_node *node,
                               struct hd_strategy_parameter *parameter)
{
    const struct hd_strategy_parameter before = *parameter;
    if (!before.word)
        parse_number(parser, node, parameter->name, 0, 1e9, false, &parameter->value);
    else if (hd_parser_expect(parser, node, HD_NODE_SCALAR, parameter->name))
        parameter->word = node->text;
    if (parameter->value != before.value ||
        (before.word && strcmp(parameter->word, before.word) != 0))
        parameter->given = node->location;
}

static int override_parameters(struct hd_parser *parser, const struct hd_node *map)
{
    struct hd_graph *graph = parser->graph;
    if (!hd_parser_expect(parser, map, HD_NODE_MAP, "strategy"))
        return HD_ERR_INPUT;
    const char **names = hd_graph_alloc(graph, graph->n_parameters + 1, sizeof *names);
    if (!names)
        return HD_ERR_NOMEM;
    for (int i = 0; i < graph->n_parameters; i++)
        names[i] = graph->parameters[i].name;
    check_keys(parser, map, "strategy parameter", names, graph->n_parameters);
    for (int64_t i = 0; i < map->count; i++)
        for (int j = 0; j < graph->n_parameters; j++)
            if (strcmp(map->keys[i]->text, names[j]) == 0)
                override_parameter(parser, map->items[i], &graph->parameters[j]);
    return HD_OK;
}

/* -- Values ------------------------------------------------------------------------------------ */

static const char *const value_keys[] = {"type", "per",       "placement", "of",  "init",
                                         "role", "bucket_mb", "slots",     "net", "when"};

static void parse_type(struct hd_parser *parser, struct hd_graph_value *value)
{
    const struct hd_registry *registry = parser->graph->registry;
    const struct hd_node *node = hd_parser_get_scalar(parser, value->node, "type");
    if (!hd_node_get(value->node, "type"))
        hd_diag_add_error(parser->diag, value->node->location, "value '%s' needs a type",
                          value->spec.name);
    if (!node)
        return;
    value->spec.type = hd_registry_find_type(registry, node->text);
    const char *names[64];
    int n = 0;
    for (; registry->types[n] && n < 64; n++)
        names[n] = registry->types[n]->name;
    if (!value->spec.type)
        hd_parser_report_unknown(parser, node->location, "type", node->text, names, n);
    else
        while (value->spec.type->counted && value->spec.type->counted[value->n_attributes])
            value->n_attributes++;
}

static void parse_placement(struct hd_parser *parser, struct hd_graph_value *value)
{
    static const char *const places[] = {"global", "rank0"};
    const struct hd_node *per = hd_parser_get_scalar(parser, value->node, "per");
    const struct hd_node *place = hd_parser_get_scalar(parser, value->node, "placement");
    value->spec.placement = HD_GLOBAL;
    if (per && place)
        hd_diag_add_error(parser->diag, place->location,
                          "give either `per: shard` or `placement:`, not both");
    if (per) {
        value->spec.placement = HD_SHARD;
        if (strcmp(per->text, "shard") != 0)
            hd_diag_add_error(parser->diag, per->location, "per: expected 'shard', found '%s'",
                              per->text);
    }
    if (place && strcmp(place->text, "rank0") == 0)
        value->spec.placement = HD_RANK0;
    else if (place && strcmp(place->text, "global") != 0)
        hd_parser_report_unknown(parser, place->location, "placement", place->text, places, 2);
}

static const struct hd_spec *parse_other(struct hd_parser *parser, struct hd_graph_value *value,
                                         const char *key)
{
    struct hd_graph *graph = parser->graph;
    const struct hd_node *node = hd_parser_get_scalar(parser, value->node, key);
    if (!node)
        return NULL;
    const int other = hd_parser_find_value(parser, node->text);
    const bool here = value < graph->values + graph->n_values;
    if (here && other >= graph->n_values) {
        hd_diag_add_error(parser->diag, node->location,
                          "%s: the graph is without '%s', whose `when` is 0", key, node->text);
        return NULL;
    }
    if (other != HD_NO_VALUE && &graph->values[other] < value)
        return &graph->values[other].spec;
    if (other != HD_NO_VALUE) {
        hd_diag_add_error(parser->diag, node->location, "%s: '%s' must be declared before '%s'",
                          key, node->text, value->spec.name);
        return NULL;
    }
    hd_parser_report_unknown_value(parser, node->location, node->text);
    return NULL;
}

/* A value begins as another one does, or with what its type finds in a file. */
static void parse_init(struct hd_parser *parser, struct hd_graph_value *value)
{
    const struct hd_node *init = hd_node_get(value->node, "init");
    const struct hd_type *type = value->spec.type;
    if (!init || init->kind != HD_NODE_MAP)
        value->spec.init = parse_other(parser, value, "init");
    else if (type && !type->starts_from_file)
        hd_diag_add_error(parser->diag, init->location,
                          "init: a value of type %s does not begin with a file", type->name);
    else
        value->spec.start = init;
}

static void parse_value(struct hd_parser *parser, struct hd_graph_value *value)
{
    if (!hd_parser_expect(parser, value->node, HD_NODE_MAP, value->spec.name))
        return;
    check_keys(parser, value->node, "key of a value", value_keys,
               sizeof value_keys / sizeof *value_keys);
    parse_type(parser, value);
    parse_placement(parser, value);
    value->spec.of = parse_other(parser, value, "of");
    parse_init(parser, value);
    const struct hd_node *role = hd_parser_get_scalar(parser, value->node, "role");
    if (role)
        value->spec.role = role->text;
    hd_parser_get_scalar(parser, value->node, "net"); /* which the type reads */
    const struct hd_node *buckets = hd_node_get(value->node, "bucket_mb");
    if (buckets)
        parse_number(parser, buckets, "bucket_mb", 1e-3, 1e6, false, &value->spec.bucket_mb);
    const struct hd_node *slots = hd_node_get(value->node, "slots");
    double number = 1;
    if (slots)
        parse_number(parser, slots, "slots", 1, 64, true, &number);
    value->slots = (int)number;
}

static struct hd_graph_value begin_value(struct hd_parser *parser, const struct hd_node *key,
                                         const struct hd_node *item)
{
    for (const char *c = key->text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') {
            hd_diag_add_error(parser->diag, key->location,
                              "value '%s': names are made of letters, digits and '_'", key->text);
            break;
        }
    return (struct hd_graph_value){
        .spec = {.name = key->text, .location = key->location, .buckets = 1, .partials = 1},
        .node = item,
        .slots = 1,
    };
}

/* Returns whether the graph has a value: its `when` is a number of the run file and the strategy,
 * and not zero. */
static bool is_present(struct hd_parser *parser, const struct hd_node *item)
{
    const struct hd_node *when = item->kind == HD_NODE_MAP ? hd_node_get(item, "when") : NULL;
    double number = 1;
    if (when)
        parse_number(parser, when, "when", -1e15, 1e15, false, &number);
    return number != 0;
}

/* Makes an entry for each value: those that the graph has come first. */
static void begin_values(struct hd_parser *parser, const struct hd_node *map, const bool *present)
{
    struct hd_graph *graph = parser->graph;
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < map->count; i++) {
            if (present[i] != (pass == 0))
                continue;
            graph->n_values += present[i];
            graph->values[n++] = begin_value(parser, map->keys[i], map->items[i]);
        }
    graph->n_absent_values = n - graph->n_values;
}

/* Checks what each value says, also where the graph is without it. */
static int parse_values(struct hd_parser *parser, const struct hd_node *map)
{
    struct hd_graph *graph = parser->graph;
    if (!hd_parser_expect(parser, map, HD_NODE_MAP, "values"))
        return HD_ERR_INPUT;
    graph->values = hd_graph_alloc(graph, map->count, sizeof *graph->values);
    bool *present = hd_graph_alloc(graph, map->count, sizeof *present);
    if (!graph->values || !present)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < map->count; i++)
        present[i] = is_present(parser, map->items[i]);
    begin_values(parser, map, present);
    for (int64_t i = 0; i < map->count; i++)
        parse_value(parser, &graph->values[i]);
    return HD_OK;
}

/* -- Steps ------------------------------------------------------------------------------------- */

static const char *const step_keys[] = {"reads", "writes", "updates", "every", "first",
                                        "when",  "counts", "if",      "reason"};
enum { N_STEP_KEYS = sizeof step_keys / sizeof *step_keys, STOP_KEYS = 2, OPTIONS_MAX = 32 };

/* Reads "N counter", where N is an expression of the config:
 * "$policy.eval.evaluator.eval_freq update". */
static int parse_every(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map)
{
    const struct hd_node *node = hd_parser_get_scalar(parser, map, "every");
    const struct hd_node *first = hd_node_get(map, "first");
    if (first && !hd_node_get(map, "every"))
        return hd_diag_add_error(parser->diag, first->location, "`first` requires `every`");
    if (!node)
        return HD_OK;
    const char *space = strrchr(node->text, ' ');
    if (!space || !space[1])
        return hd_diag_add_error(
            parser->diag, node->location,
            "every: expected a number and a counter, as in '100 update', found "
            "'%s'",
            node->text);
    struct hd_source_location location = hd_node_get_text_location(node),
                              counter_location = location;
    counter_location.column += (int)(space + 1 - node->text);
    double number = 1;
    int status = hd_graph_parse_number(parser->graph, node->text, space - node->text, location,
                                       "every", 1, 1e15, true, parser->diag, &number);
    step->every = (int64_t)number;
    step->every_counter =
        hd_graph_resolve_counter(parser->graph, space + 1, counter_location, parser->diag);
    number = (double)step->every;
    if (first)
        status = parse_number(parser, first, "first", 0, 1e15, true, &number);
    step->first = (int64_t)number;
    return status;
}

static int parse_when(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map)
{
    const struct hd_node *node = hd_node_get(map, "when");
    return node ? hd_graph_parse_expression(parser->graph, node, false, parser->diag, &step->when)
                : HD_OK;
}

/* Returns a map of options with the word of a strategy parameter in place of its name,
 * "$strategy.x", and the place where a strategy gave it; NULL: no memory. */
static const struct hd_node *insert_words(struct hd_parser *parser, const struct hd_node *map)
{
    static const char prefix[] = "$strategy.";
    struct hd_graph *graph = parser->graph;
    struct hd_node *copies = hd_graph_alloc(graph, map->count + 1, sizeof *copies);
    struct hd_node **items = hd_graph_alloc(graph, map->count + 1, sizeof(struct hd_node *));
    if (!copies || !items)
        return NULL;
    for (int64_t i = 0; i < map->count; i++) {
        const char *text = map->items[i]->kind == HD_NODE_SCALAR ? map->items[i]->text : "";
        items[i] = map->items[i];
        for (int j = 0; j < graph->n_parameters; j++) {
            struct hd_strategy_parameter *parameter = &graph->parameters[j];
            if (strncmp(text, prefix, sizeof prefix - 1) != 0 || !parameter->word ||
                strcmp(text + sizeof prefix - 1, parameter->name) != 0)
                continue;
            parameter->used = true;
            copies[i] = *map->items[i];
            copies[i].text = parameter->word;
            if (parameter->given.line > 0)
                copies[i].location = parameter->given;
            items[i] = &copies[i];
        }
    }
    copies[map->count] = *map;
    copies[map->count].items = items;
    return &copies[map->count];
}

/* Checks what an option says: a text, or a key of the run file that has one ("$policy.type"). */
static void check_option(struct hd_parser *parser, const struct hd_option *option,
                         const struct hd_node *node)
{
    const bool is_key = node->text[0] == '$';
    const char *nearest = NULL, *text = node->text;
    if (is_key)
        text = hd_config_find_text(parser->graph->config, text + 1, &nearest);
    if (!text)
        hd_diag_add_error(parser->diag, node->location, "%s: no key has a text at %.60s%s%s",
                          option->name, node->text, nearest ? "; is it $" : "",
                          nearest ? nearest : "");
    else if (!hd_names_contain(option->choices, text))
        hd_diag_add_error(parser->diag, node->location, "%s: expected %s, found '%s'%s%s",
                          option->name, option->choices, text, is_key ? " by " : "",
                          is_key ? node->text : "");
}

static void check_options(struct hd_parser *parser, const struct hd_step *step,
                          const struct hd_node *map)
{
    const char *known[N_STEP_KEYS + OPTIONS_MAX];
    int n = 0;
    for (int i = 0; i < N_STEP_KEYS - (step->verb->kind == HD_VERB_STOP ? 0 : STOP_KEYS); i++)
        known[n++] = step_keys[i];
    const struct hd_option *option = step->verb->options;
    for (; option && option->name && n < N_STEP_KEYS + OPTIONS_MAX; option++) {
        known[n++] = option->name;
        const struct hd_node *node = hd_parser_get_scalar(parser, map, option->name);
        if (!hd_node_get(map, option->name) && option->required)
            hd_diag_add_error(parser->diag, step->location, "%s needs the option '%s'%s%s",
                              step->verb->name, option->name, option->choices ? ", one of " : "",
                              option->choices ? option->choices : "");
        if (node && option->choices)
            check_option(parser, option, node);
    }
    check_keys(parser, map, "key of a step", known, n);
}

static const char *make_label(struct hd_parser *parser, const struct hd_step *step)
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

static int parse_stop(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map)
{
    const struct hd_node *reason = hd_parser_get_scalar(parser, map, "reason");
    if (!hd_node_get(map, "if"))
        return hd_diag_add_error(parser->diag, step->location, "stop needs a condition: `if:`");
    step->reason = reason ? reason->text : "stop";
    return HD_OK;
}

/* Returns how the verb combines, or what the option `op` says, which has been checked. */
static enum hd_combine parse_combine(struct hd_parser *parser, const struct hd_step *step)
{
    const struct hd_node *op =
        step->verb->to_rank0 ? hd_parser_get_scalar(parser, step->options, "op") : NULL;
    for (int how = 0; op && hd_combine_names[how]; how++)
        if (strcmp(op->text, hd_combine_names[how]) == 0)
            return (enum hd_combine)how;
    return step->verb->combine;
}

static int parse_verb(struct hd_parser *parser, struct hd_step *step, const struct hd_node *key,
                      const struct hd_node *map)
{
    const struct hd_registry *registry = parser->graph->registry;
    step->verb = hd_registry_find_verb(registry, key->text);
    if (!step->verb) {
        const char *names[128];
        int n = 0;
        for (; registry->verbs[n] && n < 127; n++)
            names[n] = registry->verbs[n]->name;
        names[n++] = "repeat";
        hd_parser_report_unknown(parser, key->location, "verb", key->text, names, n);
        return HD_ERR_INPUT;
    }
    if (!hd_parser_expect(parser, map, HD_NODE_MAP, key->text))
        return HD_ERR_INPUT;
    step->options = map = insert_words(parser, map);
    if (!map)
        return HD_ERR_NOMEM;
    check_options(parser, step, map);
    step->combine = parse_combine(parser, step);
    HD_TRY(hd_ports_read(parser, step, map));
    parse_every(parser, step, map);
    parse_when(parser, step, map);
    step->label = make_label(parser, step);
    const struct hd_node *counts = hd_parser_get_scalar(parser, map, "counts");
    if (counts)
        step->counts =
            hd_graph_resolve_counter(parser->graph, counts->text, counts->location, parser->diag);
    return step->verb->kind == HD_VERB_STOP ? parse_stop(parser, step, map) : HD_OK;
}

static int parse_steps(struct hd_parser *parser, const struct hd_node *list,
                       struct hd_step **steps_p, int *n_p);

static int parse_repeat(struct hd_parser *parser, struct hd_step *step, const struct hd_node *map)
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
        return hd_diag_add_error(parser->diag, step->location, "a repeat needs steps: `do:`");
    parser->depth++;
    int status = parse_steps(parser, body, &step->steps, &step->n_steps);
    parser->depth--;
    return status;
}

static int parse_step(struct hd_parser *parser, const struct hd_node *node, struct hd_step *step)
{
    *step = (struct hd_step){.index = parser->graph->total_steps++,
                             .location = node->location,
                             .label = "step",
                             .depth = parser->depth,
                             .counts = HD_NO_COUNTER};
    if (!hd_parser_expect(parser, node, HD_NODE_MAP, "a step is `verb: {…}`"))
        return HD_ERR_INPUT;
    if (node->count > 0 && strcmp(node->keys[0]->text, "repeat") == 0)
        return parse_repeat(parser, step, node);
    if (node->count != 1)
        return hd_diag_add_error(parser->diag, node->location,
                                 "a step has one key, its verb; found %lld keys",
                                 (long long)node->count);
    return parse_verb(parser, step, node->keys[0], node->items[0]);
}

static int parse_steps(struct hd_parser *parser, const struct hd_node *list,
                       struct hd_step **steps_p, int *n_p)
{
    if (!hd_parser_expect(parser, list, HD_NODE_LIST, "steps"))
        return HD_ERR_INPUT;
    struct hd_step *steps = hd_graph_alloc(parser->graph, list->count + 1, sizeof *steps);
    if (!steps)
        return HD_ERR_NOMEM;
    int n = 0;
    for (int64_t i = 0; i < list->count; i++) {
        if (parse_step(parser, list->items[i], &steps[n]) == HD_ERR_NOMEM)
            return HD_ERR_NOMEM;
        if (steps[n].absent)
            parser->graph->total_steps--;
        else
            n++;
    }
    *steps_p = steps;
    *n_p = n;
    return HD_OK;
}

static void list_steps(struct hd_graph *graph, struct hd_step *steps, int n)
{
    for (int i = 0; i < n; i++) {
        graph->all_steps[steps[i].index] = &steps[i];
        list_steps(graph, steps[i].steps, steps[i].n_steps);
    }
}

/* Adds the counters that the steps of a list name: `counts: NAME` declares one. */
static int find_counters(struct hd_parser *parser, const struct hd_node *list)
{
    struct hd_graph *graph = parser->graph;
    for (int64_t i = 0; list->kind == HD_NODE_LIST && i < list->count; i++) {
        const struct hd_node *step = list->items[i], *body = hd_node_get(step, "do");
        if (body)
            HD_TRY(find_counters(parser, body));
        if (step->kind != HD_NODE_MAP || step->count == 0)
            continue;
        const struct hd_node *counts = hd_parser_get_scalar(parser, step->items[0], "counts");
        if (!counts || hd_graph_find_counter(graph, counts->text) != HD_NO_COUNTER)
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

int hd_graph_parse(struct hd_graph *graph, const struct hd_node *root,
                   const struct hd_node *const *strategies, int n_strategies, struct hd_diag *diag)
{
    static const char *const keys[] = {"strategy", "values", "iteration"};
    struct hd_parser parser = {graph, diag, 0};
    if (!hd_parser_expect(&parser, root, HD_NODE_MAP, "a graph"))
        return HD_ERR_INPUT;
    check_keys(&parser, root, "key of a graph", keys, 3);
    const struct hd_node *values = hd_node_get(root, "values");
    const struct hd_node *iteration = hd_node_get(root, "iteration");
    if (!values || !iteration)
        return hd_diag_add_error(diag, root->location, "a graph needs `%s:`",
                                 values ? "iteration" : "values");
    HD_TRY(parse_parameters(&parser, hd_node_get(root, "strategy")));
    for (int i = 0; i < n_strategies; i++)
        HD_TRY(override_parameters(&parser, strategies[i]));
    HD_TRY(parse_values(&parser, values));
    graph->counters = hd_graph_alloc(graph, 1, sizeof *graph->counters);
    if (!graph->counters)
        return HD_ERR_NOMEM;
    graph->counters[graph->n_counters++] = "iteration";
    HD_TRY(find_counters(&parser, iteration));
    HD_TRY(parse_steps(&parser, iteration, &graph->steps, &graph->n_steps));
    graph->all_steps = hd_graph_alloc(graph, graph->total_steps, sizeof(struct hd_step *));
    if (!graph->all_steps)
        return HD_ERR_NOMEM;
    list_steps(graph, graph->steps, graph->n_steps);
    return HD_OK;
}
