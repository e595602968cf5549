/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/net_layers.h"

#include "kernels/net/layer_types.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_MAX = 1000000 };

struct reader {
    struct hd_diag *diag;
    const char *net; /* whose layers these are, for messages */
    int64_t actions;
    bool real; /* actions are real numbers */
    struct hd_layer *layers;
    int64_t n, capacity;
    const char *prefix; /* of the modules of the present sequence */
};

/* -- Layers ------------------------------------------------------------------------------------ */

static int refuse(const struct reader *reader, const struct hd_node *node, const char *expected)
{
    const char *found = node->kind == HD_NODE_SCALAR ? node->text
                        : node->kind == HD_NODE_LIST ? "a list"
                                                     : "a map";
    return hd_diag_add_error(reader->diag, node->location, "expected %s, found %.60s", expected,
                             found);
}

static int read_field(const struct reader *reader, const struct hd_layer_type *type, int field,
                      const struct hd_node *node, int64_t *number_p)
{
    const int64_t min = type->fields[field].min;
    char expected[128], *end = NULL;
    const int64_t number = node->kind == HD_NODE_SCALAR ? strtoll(node->text, &end, 10) : 0;
    if (end && end != node->text && !*end && !node->quoted && number >= min &&
        number <= FIELD_MAX) {
        *number_p = number;
        return HD_OK;
    }
    snprintf(expected, sizeof expected, "an integer in [%lld, %d] for %s of %s", (long long)min,
             FIELD_MAX, type->fields[field].name, type->name);
    return refuse(reader, node, expected);
}

/* Mistakes are told together. */
static int get_first_error(int before, int now)
{
    return before == HD_OK || now == HD_ERR_NOMEM ? now : before;
}

static int find_field(const struct hd_layer_type *type, const char *name)
{
    int i = 0;
    while (i < hd_layer_type_count_fields(type) && strcmp(type->fields[i].name, name) != 0)
        i++;
    return i;
}

/* Writes the names of a type's fields: "channels, kernel". */
static void list_fields(const struct hd_layer_type *type, char list[128])
{
    int at = 0;
    snprintf(list, 128, "no fields");
    for (int i = 0; i < hd_layer_type_count_fields(type); i++)
        at += snprintf(list + at, (size_t)(128 - at), "%s%s", i > 0 ? ", " : "",
                       type->fields[i].name);
}

static int read_fields_of_map(const struct reader *reader, const struct hd_node *map,
                              struct hd_layer *layer)
{
    const int n = hd_layer_type_count_fields(layer->type);
    char list[128];
    int status = HD_OK;
    list_fields(layer->type, list);
    for (int64_t i = 0; i < map->count; i++) {
        const int field = find_field(layer->type, map->keys[i]->text);
        const int read =
            field < n ? read_field(reader, layer->type, field, map->items[i], &layer->fields[field])
                      : hd_diag_add_error(reader->diag, map->keys[i]->location,
                                          "%s has no field '%.60s' (it has %s)", layer->type->name,
                                          map->keys[i]->text, list);
        status = get_first_error(status, read);
    }
    return status;
}

/* Reads the fields of a layer: those of a map by name, or the first one. `value` is NULL for a
 * layer that is only named. */
static int read_fields(const struct reader *reader, const struct hd_node *value,
                       struct hd_layer *layer)
{
    const struct hd_layer_type *type = layer->type;
    const struct hd_node *at = layer->source;
    for (int i = 0; i < hd_layer_type_count_fields(type); i++)
        layer->fields[i] = type->fields[i].initial;
    if (value && value->kind == HD_NODE_MAP)
        HD_TRY(read_fields_of_map(reader, value, layer));
    else if (value && hd_layer_type_count_fields(type) > 0)
        HD_TRY(read_field(reader, type, 0, value, &layer->fields[0]));
    else if (value)
        return hd_diag_add_error(reader->diag, value->location, "%s has no fields", type->name);
    for (int i = 0; i < hd_layer_type_count_fields(type); i++)
        if (layer->fields[i] < type->fields[i].min)
            return hd_diag_add_error(reader->diag, at->location, "%s needs its field %s",
                                     type->name, type->fields[i].name);
    return HD_OK;
}

static int refuse_type(const struct reader *reader, const struct hd_node *name)
{
    enum { TYPES_MAX = 64 };
    const struct hd_layer_type *type;
    const char *names[TYPES_MAX], *nearest = NULL;
    char list[HD_LAYER_MESSAGE] = "";
    int n = 0;
    for (int at = 0; n < TYPES_MAX && (type = hd_layer_type_get(n)); names[n++] = type->name)
        at += snprintf(list + at, sizeof list - (size_t)at, "%s%s", n > 0 ? ", " : "", type->name);
    if (name->kind == HD_NODE_SCALAR)
        nearest = hd_find_nearest_name(name->text, names, n);
    return hd_diag_add_error(
        reader->diag, name->location, "expected a layer (%s), found %.60s%s%s%s", list,
        name->kind == HD_NODE_SCALAR ? name->text : "a list", nearest ? " (did you mean '" : "",
        nearest ? nearest : "", nearest ? "'?)" : "");
}

/* Appends a layer called `name` in the run file, module `i` of the sequence. */
static int add_layer(struct reader *reader, const struct hd_layer_type *type,
                     const struct hd_node *name, int64_t i)
{
    HD_TRY(hd_grow((void **)&reader->layers, &reader->capacity, reader->n + 1,
                   sizeof *reader->layers));
    struct hd_layer *layer = &reader->layers[reader->n++];
    *layer = (struct hd_layer){.type = type, .source = name};
    const int length = i < 0 ? snprintf(layer->module, sizeof layer->module, "%s", reader->prefix)
                             : snprintf(layer->module, sizeof layer->module, "%s.%lld",
                                        reader->prefix, (long long)i);
    if (length >= (int)sizeof layer->module)
        return hd_diag_add_error(reader->diag, name->location, "layers are nested too deeply");
    return HD_OK;
}

static int read_sequence(struct reader *reader, const struct hd_node *list, const char *prefix);

/* Reads one layer: its name, or a map from its name to its fields, or to the layers inside. */
static int read_layer(struct reader *reader, const struct hd_node *node, int64_t i)
{
    const bool map = node->kind == HD_NODE_MAP && node->count == 1;
    const struct hd_node *name = map ? node->keys[0] : node, *value = map ? node->items[0] : NULL;
    const struct hd_layer_type *type =
        name->kind == HD_NODE_SCALAR ? hd_layer_type_find(name->text) : NULL;
    const int64_t at = reader->n;
    if (node->kind == HD_NODE_MAP && !map)
        return refuse(reader, node,
                      "one layer with its fields ({conv: {channels: 32, kernel: 3}})");
    if (!type)
        return refuse_type(reader, name);
    HD_TRY(add_layer(reader, type, name, i));
    if (!type->has_body)
        return read_fields(reader, value, &reader->layers[at]);
    if (!value)
        return hd_diag_add_error(reader->diag, name->location, "%s needs a list of layers",
                                 type->name);
    char prefix[HD_MODULE_NAME];
    memcpy(prefix, reader->layers[at].module, sizeof prefix);
    HD_TRY(read_sequence(reader, value, prefix));
    reader->layers[at].body = reader->n - at - 1;
    return HD_OK;
}

static int read_sequence(struct reader *reader, const struct hd_node *list, const char *prefix)
{
    if (list->kind != HD_NODE_LIST)
        return refuse(reader, list, "a list of layers");
    int status = HD_OK;
    for (int64_t i = 0; i < list->count && status != HD_ERR_NOMEM; i++) {
        reader->prefix = prefix;
        status = get_first_error(status, read_layer(reader, list->items[i], i));
    }
    return status;
}

/* -- Inputs ------------------------------------------------------------------------------------ */

/* Lists the parts of observations: "camera, state". */
static void list_parts(const struct hd_obs_shape *obs, char list[HD_OBS_TEXT])
{
    for (int i = 0, at = 0; i < obs->n_parts; i++)
        at += snprintf(list + at, (size_t)(HD_OBS_TEXT - at), "%s%.*s", i > 0 ? ", " : "",
                       HD_ENV_PART_NAME, obs->part[i].name);
}

static int find_part(const struct reader *reader, const struct hd_obs_shape *obs,
                     const struct hd_node *input, const struct hd_node *name,
                     const struct hd_obs_part **part_p)
{
    char list[HD_OBS_TEXT];
    list_parts(obs, list);
    for (int i = 0; name && name->kind == HD_NODE_SCALAR && i < obs->n_parts; i++)
        if (strcmp(obs->part[i].name, name->text) == 0) {
            *part_p = &obs->part[i];
            return HD_OK;
        }
    return hd_diag_add_error(reader->diag, (name ? name : input)->location,
                             "obs: expected a part of the observation (%s), found %.60s", list,
                             !name                          ? "none"
                             : name->kind == HD_NODE_SCALAR ? name->text
                                                            : "a tree");
}

/* Checks the form of an input, whose name is a module's, and finds its part. */
static int check_input(const struct reader *reader, const struct hd_obs_shape *obs,
                       const struct hd_node *name, const struct hd_node *input,
                       const struct hd_obs_part **part_p)
{
    if (input->kind != HD_NODE_MAP)
        return refuse(reader, input, "an input's map ({obs: PART, layers: [...]})");
    for (int64_t i = 0; i < input->count; i++)
        if (!hd_names_contain("obs|layers", input->keys[i]->text))
            return hd_diag_add_error(reader->diag, input->keys[i]->location,
                                     "expected an input's keys obs and layers, found %.60s",
                                     input->keys[i]->text);
    if (strchr(name->text, '.') || strlen(name->text) > HD_MODULE_NAME / 2)
        return hd_diag_add_error(reader->diag, name->location,
                                 "inputs: the name %.60s is too long, or has a dot", name->text);
    HD_TRY(find_part(reader, obs, input, hd_node_get(input, "obs"), part_p));
    if ((*part_p)->dims == 1 || (*part_p)->dims == 3)
        return HD_OK;
    return hd_diag_add_error(reader->diag, name->location,
                             "inputs: an input reads one number (a vector) or [channels, height, "
                             "width], but %s has %d dimensions",
                             (*part_p)->name, (*part_p)->dims);
}

/* Reads an input: the layers between its part and the join. */
static int read_input(struct reader *reader, const struct hd_obs_shape *obs,
                      const struct hd_node *name, const struct hd_node *input,
                      struct hd_net_fields *fields)
{
    const struct hd_node *layers = hd_node_get(input, "layers");
    const struct hd_obs_part *part = NULL;
    const int64_t first = reader->n;
    char prefix[HD_MODULE_NAME];
    HD_TRY(check_input(reader, obs, name, input, &part));
    snprintf(prefix, sizeof prefix, "inputs.%s", name->text);
    if (layers)
        HD_TRY(read_sequence(reader, layers, prefix));
    reader->prefix = prefix;
    HD_TRY(add_layer(reader, &hd_layer_concat, name, -1));
    struct hd_net_input *to = &fields->inputs[fields->n_inputs++];
    *to = (struct hd_net_input){.shape.dims = part->dims,
                                .u8 = part->u8,
                                .offset = part->offset,
                                .layers = reader->n - first};
    memcpy(to->shape.size, part->shape, (size_t)part->dims * sizeof *part->shape);
    return HD_OK;
}

/* Checks that every part is read: one that is not may have been forgotten. */
static int check_parts(const struct reader *reader, const struct hd_obs_shape *obs,
                       const struct hd_node *inputs)
{
    char list[HD_OBS_TEXT];
    for (int i = 0; i < obs->n_parts; i++) {
        bool is_read = false;
        for (int64_t k = 0; k < inputs->count; k++)
            is_read |= strcmp(hd_node_get(inputs->items[k], "obs")->text, obs->part[i].name) == 0;
        list_parts(obs, list);
        if (!is_read)
            return hd_diag_add_error(reader->diag, inputs->location,
                                     "inputs: none reads the part %s of the observation (%s); a "
                                     "wrapper can leave it out (env.options.wrappers: "
                                     "{FilterObservation: {filter_keys: [...]}})",
                                     obs->part[i].name, list);
    }
    return HD_OK;
}

static int read_inputs(struct reader *reader, const struct hd_config *config,
                       const struct hd_node *inputs, struct hd_net_fields *fields)
{
    const struct hd_obs_shape obs = hd_obs_shape_read(config);
    char text[HD_OBS_TEXT];
    if (inputs->kind != HD_NODE_MAP || inputs->count > HD_NET_INPUTS)
        return hd_diag_add_error(reader->diag, inputs->location,
                                 "inputs: expected a map of up to %d inputs", HD_NET_INPUTS);
    const struct hd_node *shapes = hd_config_get_shapes(config, "policy.model.obs_shape");
    if (shapes && shapes->count > HD_ENV_PARTS)
        return hd_diag_add_error(reader->diag, shapes->location,
                                 "obs_shape: expected up to %d parts, found %lld", HD_ENV_PARTS,
                                 (long long)shapes->count);
    if (!hd_obs_has_parts(&obs))
        return hd_diag_add_error(reader->diag, inputs->location,
                                 "inputs: each reads a part of the observation, but "
                                 "policy.model.obs_shape is one array, %s",
                                 hd_obs_shape_write(&obs, text));
    fields->frames = obs.stack;
    fields->frame_bytes = obs.frame_bytes;
    for (int64_t i = 0; i < inputs->count; i++)
        HD_TRY(read_input(reader, &obs, inputs->keys[i], inputs->items[i], fields));
    return check_parts(reader, &obs, inputs);
}

/* -- Heads ------------------------------------------------------------------------------------- */

/* A net beside the policy's yields one value. */
static const struct hd_head value_heads[HD_NET_STREAMS] = {{"value", "dense", HD_OUTPUT_ACTIONS}};

/* Reads a stream: the layers of the head, if it has any, then a dense layer. A stream of one layer
 * is a module; one of several is a Sequential. */
static int read_stream(struct reader *reader, const struct hd_node *head, const char *module,
                       enum hd_output output, struct hd_net_fields *fields)
{
    const struct hd_node *layers = hd_node_get(head, "layers");
    const int64_t first = reader->n;
    if (layers)
        HD_TRY(read_sequence(reader, layers, module));
    reader->prefix = module;
    HD_TRY(add_layer(reader, &hd_layer_dense, head, layers ? layers->count : -1));
    reader->layers[reader->n - 1].fields[HD_DENSE_OUT] =
        output == HD_OUTPUT_ACTIONS ? reader->actions : 1;
    if (fields->log_std && output == HD_OUTPUT_ACTIONS) {
        reader->layers[reader->n - 1].fields[HD_DENSE_OUT] /= 2;
        reader->prefix = module;
        HD_TRY(add_layer(reader, &hd_layer_log_std, head, -1));
    }
    fields->streams[fields->n_streams++] = (struct hd_stream){output, reader->n - first};
    return HD_OK;
}

static int check_keys(const struct reader *reader, const struct hd_node *head)
{
    for (int64_t i = 0; i < head->count; i++)
        if (!hd_names_contain("type|layers", head->keys[i]->text))
            return hd_diag_add_error(reader->diag, head->keys[i]->location,
                                     "expected a head's keys type and layers, found %.60s",
                                     head->keys[i]->text);
    return HD_OK;
}

/* Choices have categorical distributions, real numbers normal ones. */
static bool fits(const struct reader *reader, const char *type)
{
    const bool categorical = strcmp(type, "categorical") == 0;
    const bool gaussian = strstr(type, "gaussian") != NULL;
    return !(reader->real ? categorical : gaussian);
}

/* Finds the type that a head states, else the first of its form that fits the actions. */
static int read_type(struct reader *reader, const struct hd_head *form, const struct hd_node *head,
                     char type[HD_MODULE_NAME])
{
    const struct hd_node *stated = hd_node_get(head, "type");
    const char *text = stated && stated->kind == HD_NODE_SCALAR ? stated->text : NULL;
    if (stated && (!text || !hd_names_contain(form->types, text)))
        return hd_diag_add_error(reader->diag, stated->location,
                                 "heads.%s: expected the type %s, found %.60s", form->name,
                                 form->types, text ? text : "a tree");
    const char *names = text ? text : form->types;
    do {
        const size_t length = strcspn(names, "|");
        snprintf(type, HD_MODULE_NAME, "%.*s", (int)length, names);
        names += length + (names[length] == '|');
    } while (!fits(reader, type) && *names);
    return fits(reader, type)
               ? HD_OK
               : hd_diag_add_error(reader->diag, (stated ? stated : head)->location,
                                   "%s: expected %s, because policy.action_space is %s", type,
                                   reader->real ? "gaussian" : "categorical",
                                   reader->real ? "continuous" : "discrete");
}

static int read_head(struct reader *reader, const struct hd_head *form, const struct hd_node *node,
                     struct hd_net_fields *fields)
{
    char module[HD_MODULE_NAME], type[HD_MODULE_NAME];
    if (node->kind != HD_NODE_MAP)
        return refuse(reader, node, "a map with the head's type and layers");
    HD_TRY(check_keys(reader, node));
    HD_TRY(read_type(reader, form, node, type));
    if (strcmp(type, "dueling") != 0) {
        snprintf(module, sizeof module, "heads.%s", form->name);
        return read_stream(reader, node, module, form->output, fields);
    }
    fields->heads = HD_HEADS_DUELING;
    snprintf(module, sizeof module, "heads.%s.advantage", form->name);
    HD_TRY(read_stream(reader, node, module, HD_OUTPUT_ACTIONS, fields));
    snprintf(module, sizeof module, "heads.%s.value", form->name);
    return read_stream(reader, node, module, HD_OUTPUT_VALUE, fields);
}

/* `at` is the place to tell of a head that is not there. */
static int read_heads(struct reader *reader, const struct hd_head *wanted,
                      const struct hd_node *heads, const struct hd_node *at,
                      struct hd_net_fields *fields)
{
    for (int64_t i = 0; heads && i < heads->count; i++) {
        const struct hd_head *form = wanted;
        while (form->name && strcmp(form->name, heads->keys[i]->text) != 0 &&
               form < &wanted[HD_NET_STREAMS - 1])
            form++;
        if (!form->name || strcmp(form->name, heads->keys[i]->text) != 0)
            return hd_diag_add_error(reader->diag, heads->keys[i]->location,
                                     "a net of %s has no head '%.60s'", reader->net,
                                     heads->keys[i]->text);
        HD_TRY(read_head(reader, form, heads->items[i], fields));
    }
    for (int i = 0; i < HD_NET_STREAMS && wanted[i].name; i++)
        if (!hd_node_get(heads, wanted[i].name))
            return hd_diag_add_error(reader->diag, at->location,
                                     "heads: a net of %s needs a head %s of type %s", reader->net,
                                     wanted[i].name, wanted[i].types);
    return HD_OK;
}

/* -- The list ---------------------------------------------------------------------------------- */

static bool is_empty(const struct hd_node *node)
{
    return !node || (node->kind != HD_NODE_SCALAR && node->count == 0);
}

/* Settings inside a tree would have to be merged into it. */
static int refuse_inner_sets(const struct hd_setup *setup, const char *key)
{
    const struct hd_node *value, *name = hd_config_get_inner_set(setup->config, key, 0, &value);
    return !name ? HD_OK
                 : hd_diag_add_error(setup->diag, name->location, "%s can only be set as a whole",
                                     key);
}

/* A net in the run file; NULL: it has none of these. */
struct tree {
    const struct hd_node *inputs, *layers, *heads;
};

static int read_all(struct reader *reader, const struct hd_config *config,
                    const struct hd_head *wanted, const struct tree *tree,
                    struct hd_net_fields *fields)
{
    const struct hd_node *heads = tree->heads, *at = tree->inputs ? tree->inputs : tree->layers;
    if (tree->inputs)
        HD_TRY(read_inputs(reader, config, tree->inputs, fields));
    if (tree->layers)
        HD_TRY(read_sequence(reader, tree->layers, "layers"));
    fields->trunk = reader->n;
    if (heads && heads->kind != HD_NODE_MAP)
        return refuse(reader, heads, "heads to be a map of heads");
    return read_heads(reader, wanted, heads, is_empty(heads) ? at : heads, fields);
}

/* `net`: for messages. */
static int read_net(const struct hd_setup *setup, const char *net, const struct hd_head *wanted,
                    const struct tree *tree, struct hd_net_fields *fields)
{
    struct reader reader = {.diag = setup->diag,
                            .net = net,
                            .actions = fields->actions,
                            .real = hd_actions_read(setup->config).kind == HD_ENV_BOX};
    const int status = read_all(&reader, setup->config, wanted, tree, fields);
    if (status == HD_OK)
        fields->layers = reader.layers;
    else
        hd_free(reader.layers);
    return status;
}

int hd_net_layers_read(const struct hd_setup *setup, struct hd_net_fields *fields)
{
    const struct hd_config *config = setup->config;
    const struct tree tree = {
        hd_obs_has_inputs(config) ? hd_config_get_node(config, "policy.model.inputs") : NULL,
        hd_config_get_node(config, "policy.model.layers"),
        hd_config_get_node(config, "policy.model.heads")};
    HD_TRY(refuse_inner_sets(setup, "policy.model.inputs"));
    HD_TRY(refuse_inner_sets(setup, "policy.model.layers"));
    HD_TRY(refuse_inner_sets(setup, "policy.model.heads"));
    if (!tree.inputs)
        HD_TRY(hd_obs_refuse_parts(config, "policy.model.obs_shape", setup->location,
                                   "a net without policy.model.inputs reads one array",
                                   setup->diag));
    if (!tree.inputs && is_empty(tree.layers))
        return is_empty(tree.heads)
                   ? HD_OK
                   : hd_diag_add_error(setup->diag, tree.heads->location,
                                       "policy.model.heads needs policy.model.layers");
    const struct hd_policy *policy = hd_policy_get(config);
    char net[64];
    snprintf(net, sizeof net, "policy.type %s", policy->name);
    fields->heads = policy->outputs->heads;
    return read_net(setup, net, policy->outputs->head, &tree, fields);
}

/* -- Other nets -------------------------------------------------------------------------------- */

/* Reads `input: [obs, action]`. */
static int read_names(const struct hd_setup *setup, const struct hd_node *input, bool *action_p)
{
    static const char *const names[] = {"obs", "action"};
    struct reader reader = {.diag = setup->diag};
    *action_p = input && input->count == 2;
    if (input && (input->kind != HD_NODE_LIST || input->count < 1 || input->count > 2))
        return refuse(&reader, input, "[obs] or [obs, action]");
    for (int64_t i = 0; input && i < input->count; i++)
        if (input->items[i]->kind != HD_NODE_SCALAR || strcmp(input->items[i]->text, names[i]) != 0)
            return hd_diag_add_error(setup->diag, input->items[i]->location,
                                     "expected %s in [obs] or [obs, action]", names[i]);
    return HD_OK;
}

int hd_net_tree_read(const struct hd_setup *setup, const char *key, struct hd_net_fields *fields,
                     bool *action_p)
{
    const struct hd_node *tree = hd_config_get_node(setup->config, key);
    const struct hd_node *named = hd_node_get(setup->options, "net");
    HD_TRY(refuse_inner_sets(setup, key));
    if (!tree || tree->kind != HD_NODE_MAP || is_empty(hd_node_get(tree, "layers")))
        return hd_diag_add_error(setup->diag, tree ? tree->location : named->location,
                                 "%s: a net needs a map with `layers` and `heads`", key);
    for (int64_t i = 0; i < tree->count; i++)
        if (!hd_names_contain("input|layers|heads", tree->keys[i]->text))
            return hd_diag_add_error(setup->diag, tree->keys[i]->location,
                                     "expected a net's keys input, layers and heads, found %.60s",
                                     tree->keys[i]->text);
    HD_TRY(read_names(setup, hd_node_get(tree, "input"), action_p));
    fields->heads = HD_HEADS_Q;
    const struct tree parts = {NULL, hd_node_get(tree, "layers"), hd_node_get(tree, "heads")};
    return read_net(setup, key, value_heads, &parts, fields);
}
