/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/env_options.h"

#include "kernels/envs/find/find.h"
#include "runtime/base/alloc.h"
#include "runtime/base/config/node_json.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

/* -- Paths ------------------------------------------------------------------------------------- */

/* Stores the absolute path of the folder to which a node's paths are relative, to be freed with
 * free. */
static int find_base(const struct hd_node *node, char **base_p)
{
    const char *file = node->location.file, *slash = strrchr(file, '/');
    char *folder = slash ? hd_format("%.*s/", (int)(slash - file), file) : hd_strdup(".");
    if (!folder)
        return HD_ERR_NOMEM;
    *base_p = realpath(folder, NULL);
    if (!*base_p)
        hd_log(HD_LOG_ERROR, "the folder %s of the config cannot be found: %m", folder);
    hd_free(folder);
    return *base_p ? HD_OK : HD_ERR_SYSTEM;
}

/* Returns the one spelling of a path, to be freed with hd_free, in which a link at the end stays
 * one: the Python of a virtual environment is such a link. NULL: no memory, or its folder is
 * absent. */
static char *normalise(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    const bool is_folder = !name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    char *above = is_folder ? hd_strdup(path) : hd_format("%.*s", (int)(name - path), path);
    char *real = above ? realpath(above, NULL) : NULL;
    char *normal = !real ? NULL : is_folder ? hd_strdup(real) : hd_format("%s/%s", real, name);
    hd_free(above);
    free(real);
    return normal;
}

static bool exists(const char *path)
{
    char *real = realpath(path, NULL);
    free(real);
    return real != NULL;
}

static int make_absolute(const struct hd_node *node, bool is_program, char **path_p)
{
    char *base;
    HD_TRY(find_base(node, &base));
    char *path = hd_format("%s/%s", base, node->text);
    free(base);
    if (!path)
        return HD_ERR_NOMEM;
    const bool is_elsewhere = is_program && !strchr(node->text, '/') && !exists(path);
    char *better = is_elsewhere ? hd_strdup(node->text) : normalise(path);
    *path_p = better ? better : path;
    if (better)
        hd_free(path);
    return HD_OK;
}

static int resolve(struct hd_document *document, struct hd_node *map, const char *name)
{
    const struct hd_node *node = hd_node_get(map, name);
    char *path;
    if (!node || node->kind != HD_NODE_SCALAR || !node->text[0] || node->text[0] == '/')
        return HD_OK;
    HD_TRY(make_absolute(node, strcmp(name, "python") == 0, &path));
    struct hd_node *absolute = hd_node_create_scalar(document, node->location, path);
    hd_free(path);
    return absolute ? hd_node_put(document, map, name, absolute) : HD_ERR_NOMEM;
}

static int resolve_copy(struct hd_config *config, struct hd_document *document,
                        const struct hd_node *options)
{
    struct hd_node *copy = hd_node_copy(document, options);
    if (!copy)
        return HD_ERR_NOMEM;
    HD_TRY(resolve(document, copy, "path"));
    HD_TRY(resolve(document, copy, "python"));
    return hd_config_override_tree(config, "env.options", copy);
}

/* Refuses words that some readers of YAML take for booleans; Python takes a text for true. */
static int check_words(const struct hd_node *node, struct hd_diag *diag)
{
    const char *boolean = hd_node_find_ambiguous(node);
    int status = HD_OK;
    for (int64_t i = 0; node->kind != HD_NODE_SCALAR && i < node->count; i++)
        if (check_words(node->items[i], diag) != HD_OK)
            status = HD_ERR_INPUT;
    if (boolean)
        status = hd_diag_add_error(diag, node->location,
                                   "%s is a text here, which Python takes for true: write %s, or "
                                   "\"%s\" for the text",
                                   node->text, boolean, node->text);
    return status;
}

static bool has_arguments(const char *name)
{
    return strcmp(name, "kwargs") == 0 || strcmp(name, "wrappers") == 0 ||
           strncmp(name, "kwargs.", strlen("kwargs.")) == 0;
}

static int check_arguments(const struct hd_node *options, struct hd_diag *diag)
{
    int status = HD_OK;
    for (int64_t i = 0; i < options->count; i++)
        if (has_arguments(options->keys[i]->text) && check_words(options->items[i], diag) != HD_OK)
            status = HD_ERR_INPUT;
    return status;
}

int hd_env_options_resolve(struct hd_config *config, struct hd_diag *diag)
{
    const struct hd_node *options = hd_config_get_node(config, "env.options");
    struct hd_document *document;
    if (!options || !strstr(hd_config_get_text(config, "env.type"), "gymnasium"))
        return HD_OK;
    HD_TRY(check_arguments(options, diag));
    HD_TRY(hd_document_create(&document));
    const int status = resolve_copy(config, document, options);
    hd_document_destroy(document);
    return status;
}

/* -- Settings ---------------------------------------------------------------------------------- */

int hd_env_options_read(const struct hd_node *map, struct hd_env_settings *settings)
{
    struct hd_env_option *options = hd_alloc(map ? map->count : 0, sizeof *options);
    settings->options = options;
    settings->n_options = 0;
    for (int64_t i = 0; options && map && i < map->count; i++) {
        const struct hd_node *item = map->items[i];
        options[i].name = map->keys[i]->text;
        const bool plain = item->kind == HD_NODE_SCALAR && !strchr(map->keys[i]->text, '.');
        options[i].value = plain ? hd_strdup(item->text) : hd_node_build_json(item);
        settings->n_options++;
        if (!options[i].value)
            return HD_ERR_NOMEM;
    }
    return options ? HD_OK : HD_ERR_NOMEM;
}

void hd_env_options_release(struct hd_env_settings *settings)
{
    for (int i = 0; i < settings->n_options; i++)
        hd_free((void *)settings->options[i].value);
    hd_free((void *)settings->options);
}

int hd_env_probe(const struct hd_config *config, const struct hd_env_settings *settings,
                 struct hd_source_location location, struct hd_diag *diag,
                 const struct hd_env **env_p, struct hd_env_spec *spec_p, int64_t *state_bytes_p)
{
    const struct hd_source_location place = hd_config_locate(config, "env.type", location);
    const char *type = hd_config_get_text(config, "env.type");
    struct hd_env_settings one = *settings;
    char message[HD_ENV_MESSAGE] = "";
    void *group;
    if (hd_env_find(type, env_p, message) != HD_OK)
        return hd_diag_add_error(diag, place, "env.type: %s", message);
    one.envs = 1;
    if ((*env_p)->create(&one, spec_p, &group, message) != 0)
        return hd_diag_add_error(diag, place, "env.type %s: %s", type, message);
    if (state_bytes_p)
        *state_bytes_p = (*env_p)->state_bytes(group);
    (*env_p)->destroy(group);
    return HD_OK;
}
