/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/config/config_internal.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

static const char set_file[] = "--set";

static int compare_paths(const void *left, const void *right)
{
    const struct hd_setting *a = left, *b = right;
    return strcmp(a->key->path, b->key->path);
}

struct hd_setting *hd_config_find_setting(const struct hd_config *config, const char *path)
{
    struct hd_key key = {.path = path};
    struct hd_setting wanted = {.key = &key};
    return bsearch(&wanted, config->settings, (size_t)config->count, sizeof wanted, compare_paths);
}

/* Adds a key's path to the nested levels. */
static int add_to_levels(struct hd_config *config, const struct hd_key *key, struct hd_diag *diag)
{
    const struct hd_source_location location = {.file = "schema"};
    struct hd_node *level = config->levels;
    char *name = hd_strdup(key->path), *rest = NULL;
    int status = name ? HD_OK : HD_ERR_NOMEM;
    char *part = name ? strtok_r(name, ".", &rest) : NULL;
    while (part && status == HD_OK) {
        char *following = strtok_r(NULL, ".", &rest);
        struct hd_node *child = hd_node_get(level, part);
        if (child && (!following || child->kind == HD_NODE_SCALAR)) {
            status = hd_diag_add_error(diag, location, "'%s' and another key exclude each other",
                                       key->path);
        } else if (!child) {
            child = following ? hd_node_create_map(config->nodes, location)
                              : hd_node_create_scalar(config->nodes, location, key->path);
            status = child ? hd_node_put(config->nodes, level, part, child) : HD_ERR_NOMEM;
        }
        level = child;
        part = following;
    }
    hd_free(name);
    return status;
}

/* The default goes through the same checks as what a user writes. */
static int read_default(struct hd_config *config, struct hd_setting *setting, struct hd_diag *diag)
{
    const struct hd_key *key = setting->key;
    const struct hd_source_location location = {.file = "schema"};
    struct hd_node *node;
    if (!key->initial)
        return HD_OK;
    HD_TRY(hd_node_parse(config->nodes, location, key->initial, diag, &node));
    if (key->kind == HD_KEY_TEXT && !key->initial[0])
        node->quoted = true;
    HD_TRY(hd_setting_read(setting, node, diag));
    setting->default_hash = hd_setting_hash(setting);
    return HD_OK;
}

static int load_schema(struct hd_config *config, const struct hd_key *const *schema, int n_schema,
                       struct hd_diag *diag)
{
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path; key++)
            config->count++;
    config->settings = hd_alloc(config->count, sizeof *config->settings);
    if (!config->settings)
        return HD_ERR_NOMEM;
    struct hd_setting *setting = config->settings;
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path; key++, setting++) {
            setting->key = key;
            HD_TRY(add_to_levels(config, key, diag));
            HD_TRY(read_default(config, setting, diag));
        }
    qsort(config->settings, (size_t)config->count, sizeof *setting, compare_paths);
    return HD_OK;
}

static int reject_unknown(const struct hd_config *config, const struct hd_node *level,
                          const struct hd_node *name, struct hd_diag *diag)
{
    const char **names = hd_alloc(level->count, sizeof *names);
    if (!names)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < level->count; i++)
        names[i] = level->keys[i]->text;
    const char *nearest = hd_find_nearest_name(name->text, names, level->count);
    char called[HD_DESCRIPTION_BYTES];
    hd_schema_list_called(config->schema, config->n_schema, name->text, called);
    char list[1024] = "";
    size_t used = 0;
    for (int64_t i = 0; i < level->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    hd_free(names);
    if (called[0]) /* in the wrong section, or by a name that others give it */
        return hd_diag_add_error(diag, name->location, "unknown key '%s' (did you mean %s?)",
                                 name->text, called);
    if (nearest)
        return hd_diag_add_error(diag, name->location, "unknown key '%s' (did you mean '%s'?)",
                                 name->text, nearest);
    return hd_diag_add_error(diag, name->location, "unknown key '%s' (the keys here are: %s)",
                             name->text, list);
}

static int apply_map(struct hd_config *config, const struct hd_node *level,
                     const struct hd_node *map, struct hd_diag *diag);

/* Applies `name: value` where `level` is the section it stands in. */
static int apply(struct hd_config *config, const struct hd_node *level, const struct hd_node *name,
                 const struct hd_node *value, struct hd_diag *diag)
{
    const struct hd_node *child = hd_node_get(level, name->text);
    bool nothing = value->kind == HD_NODE_SCALAR && !value->quoted && !value->text[0];
    if (!child)
        return reject_unknown(config, level, name, diag);
    if (child->kind == HD_NODE_SCALAR) {
        struct hd_setting *setting = hd_config_find_setting(config, child->text);
        if (nothing && setting->key->kind >= HD_KEY_TREE && setting->node)
            return HD_OK;
        setting->given = true;
        return hd_setting_read(setting, value, diag);
    }
    if (value->kind == HD_NODE_MAP)
        return apply_map(config, child, value, diag);
    if (nothing)
        return HD_OK;
    char found[HD_DESCRIPTION_BYTES];
    hd_node_describe(value, found);
    return hd_diag_add_error(diag, value->location, "%s: expected a map of keys, found %s",
                             name->text, found);
}

/* Continues after mistakes, which diag counts. */
static int apply_map(struct hd_config *config, const struct hd_node *level,
                     const struct hd_node *map, struct hd_diag *diag)
{
    int status = HD_OK;
    for (int64_t i = 0; i < map->count && status != HD_ERR_NOMEM; i++) {
        int entry_status = apply(config, level, map->keys[i], map->items[i], diag);
        status = entry_status != HD_OK ? entry_status : status;
    }
    return status;
}

/* A file that is no map holds no key: that the keys are missing need not be told too. */
static int check_root(const struct hd_config *config, struct hd_diag *diag)
{
    if (!config->document || hd_document_get_root(config->document)->kind == HD_NODE_MAP)
        return HD_OK;
    const struct hd_node *root = hd_document_get_root(config->document);
    char found[HD_DESCRIPTION_BYTES];
    hd_node_describe(root, found);
    return hd_diag_add_error(diag, root->location, "expected a map of keys, found %s", found);
}

static int apply_file(struct hd_config *config, struct hd_diag *diag)
{
    if (!config->document)
        return HD_OK;
    return apply_map(config, config->levels, hd_document_get_root(config->document), diag);
}

/* Puts name: value into a copy of the map, because aliases may share the file's nodes. */
static int put_into_map(struct hd_config *config, struct hd_setting *setting,
                        const struct hd_node *name, const struct hd_node *value,
                        struct hd_diag *diag)
{
    struct hd_node *map = setting->node ? hd_node_copy(config->nodes, setting->node)
                                        : hd_node_create_map(config->nodes, name->location);
    struct hd_node *entry = hd_node_copy(config->nodes, value);
    if (!map || !entry || hd_node_put(config->nodes, map, name->text, entry) != HD_OK)
        return HD_ERR_NOMEM;
    setting->given = true;
    return hd_setting_read(setting, map, diag);
}

static int keep_inner_set(struct hd_config *config, const struct hd_setting *tree,
                          const struct hd_node *name, const struct hd_node *value)
{
    void *list = config->inner_sets;
    int status = hd_grow(&list, &config->inner_capacity, config->inner_count + 1,
                         sizeof *config->inner_sets);
    config->inner_sets = list;
    HD_TRY(status);
    config->inner_sets[config->inner_count++] = (struct hd_inner_set){tree, name, value};
    return HD_OK;
}

/* Applies path=value: descends by the names between the dots. */
static int apply_path(struct hd_config *config, struct hd_source_location location, char *path,
                      const struct hd_node *value, struct hd_diag *diag)
{
    const struct hd_node *level = config->levels;
    for (;;) {
        char *dot = strchr(path, '.');
        if (dot)
            *dot = '\0';
        const struct hd_node *name = hd_node_create_scalar(config->nodes, location, path);
        if (!name)
            return HD_ERR_NOMEM;
        if (!path[0])
            return hd_diag_add_error(diag, location, "expected the name of a key");
        if (!dot)
            return apply(config, level, name, value, diag);
        const struct hd_node *child = hd_node_get(level, path);
        if (!child)
            return reject_unknown(config, level, name, diag);
        location.column += (int)(dot + 1 - path);
        path = dot + 1;
        level = child;
        if (child->kind == HD_NODE_MAP)
            continue;
        struct hd_setting *setting = hd_config_find_setting(config, child->text);
        const struct hd_node *inner = hd_node_create_scalar(config->nodes, location, path);
        if (!inner)
            return HD_ERR_NOMEM;
        if (!path[0])
            return hd_diag_add_error(diag, location, "expected the name of a key");
        if (setting->key->kind == HD_KEY_MAP)
            return put_into_map(config, setting, inner, value, diag);
        if (setting->key->kind != HD_KEY_TREE)
            return hd_diag_add_error(diag, location, "'%s' has no keys inside", child->text);
        return keep_inner_set(config, setting, inner, value);
    }
}

static int apply_set(struct hd_config *config, int line, const struct hd_set *given,
                     struct hd_diag *diag)
{
    const char *set = given->text;
    struct hd_source_location location = {.file = set_file, .line = line, .column = 1};
    if (given->option)
        location = (struct hd_source_location){.file = given->option};
    const char *equals = strchr(set, '=');
    if (!equals)
        return hd_diag_add_error(diag, location, "expected key=value, found '%.60s'", set);
    struct hd_source_location value_location = location;
    value_location.column += (int)(equals + 1 - set);
    struct hd_node *value;
    HD_TRY(hd_node_parse(config->nodes, value_location, equals + 1, diag, &value));
    char *path = hd_strdup(set);
    if (!path)
        return HD_ERR_NOMEM;
    path[equals - set] = '\0';
    int status = apply_path(config, location, path, value, diag);
    hd_free(path);
    return status;
}

static int apply_sets(struct hd_config *config, const struct hd_set *sets, int n_sets,
                      struct hd_diag *diag)
{
    int status = HD_OK;
    for (int i = 0; i < n_sets && status != HD_ERR_NOMEM; i++) {
        int set_status = apply_set(config, i + 1, &sets[i], diag);
        status = set_status != HD_OK ? set_status : status;
    }
    return status;
}

static int check_required(const struct hd_config *config, struct hd_diag *diag)
{
    struct hd_source_location location = {.file = set_file};
    int status = HD_OK;
    if (config->document)
        location.file = hd_document_get_root(config->document)->location.file;
    for (int64_t i = 0; i < config->count; i++) {
        const struct hd_setting *setting = &config->settings[i];
        if (setting->node || setting->given)
            continue;
        char expected[HD_DESCRIPTION_BYTES];
        hd_key_describe(setting->key, expected);
        status = hd_diag_add_error(diag, location, "the key '%s' must be given: %s",
                                   setting->key->path, expected);
    }
    return status;
}

void hd_config_destroy(struct hd_config *config)
{
    if (!config)
        return;
    for (int64_t i = 0; config->settings && i < config->count; i++)
        hd_setting_fini(&config->settings[i]);
    hd_free(config->settings);
    hd_free(config->inner_sets);
    hd_document_destroy(config->nodes);
    hd_document_destroy(config->document);
    hd_free(config);
}

static int fill_config(struct hd_config *config, const struct hd_key *const *schema, int n_schema,
                       const struct hd_set *sets, int n_sets, struct hd_diag *diag)
{
    config->schema = schema;
    config->n_schema = n_schema;
    HD_TRY(hd_document_create(&config->nodes));
    config->levels =
        hd_node_create_map(config->nodes, (struct hd_source_location){.file = "schema"});
    if (!config->levels)
        return HD_ERR_NOMEM;
    HD_TRY(load_schema(config, schema, n_schema, diag));
    HD_TRY(check_root(config, diag));
    int file = apply_file(config, diag);
    if (file == HD_ERR_NOMEM)
        return file;
    int set = apply_sets(config, sets, n_sets, diag);
    if (set == HD_ERR_NOMEM)
        return set;
    HD_TRY(check_required(config, diag));
    return file != HD_OK ? file : set;
}

int hd_config_create(const struct hd_key *const *schema, int n_schema, struct hd_document *document,
                     const struct hd_set *sets, int n_sets, struct hd_diag *diag,
                     struct hd_config **config_p)
{
    struct hd_config *config = hd_alloc(1, sizeof *config);
    if (!config)
        return HD_ERR_NOMEM;
    config->document = document;
    int status = fill_config(config, schema, n_schema, sets, n_sets, diag);
    if (status == HD_OK) {
        *config_p = config;
        return HD_OK;
    }
    config->document = NULL; /* stays the caller's */
    hd_config_destroy(config);
    return status;
}
