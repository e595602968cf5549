/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/env_options.h"

#include "kernels/envs/find/find.h"
#include "runtime/base/alloc.h"
#include "runtime/base/config/node_json.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/types/base/obs.h"

#include <stdlib.h>
#include <string.h>

/* -- Sides ------------------------------------------------------------------------------------- */

static const char *const sides[] = {"collector", "evaluator"};
enum { N_SIDES = sizeof sides / sizeof *sides };

static bool is_side(const char *name)
{
    return strcmp(name, sides[0]) == 0 || strcmp(name, sides[1]) == 0;
}

/* Returns the side of an option that --set has put in ("collector.worker"), NULL: it has none; and
 * in *name_p its name there. */
static const char *split_name(const char *name, const char **name_p)
{
    for (int i = 0; i < N_SIDES; i++) {
        const size_t length = strlen(sides[i]);
        if (strncmp(name, sides[i], length) == 0 && name[length] == '.') {
            *name_p = name + length + 1;
            return sides[i];
        }
    }
    return NULL;
}

static int put_into_side(struct hd_document *document, struct hd_node *options, const char *side,
                         const char *name, const struct hd_node *item)
{
    struct hd_node *map = (struct hd_node *)hd_node_get(options, side);
    if (!map && (!(map = hd_node_create_map(document, item->location)) ||
                 hd_node_put(document, options, side, map) != HD_OK))
        return HD_ERR_NOMEM;
    return hd_node_put(document, map, name, (struct hd_node *)item);
}

/* Puts options of one side that stand beside the others into its map. */
static int fold(struct hd_document *document, const struct hd_node *from, struct hd_node *to)
{
    const char *name;
    for (int64_t i = 0; i < from->count; i++)
        if (!split_name(from->keys[i]->text, &name))
            HD_TRY(hd_node_put(document, to, from->keys[i]->text, from->items[i]));
    for (int64_t i = 0; i < from->count; i++) {
        const char *side = split_name(from->keys[i]->text, &name);
        if (side)
            HD_TRY(put_into_side(document, to, side, name, from->items[i]));
    }
    return HD_OK;
}

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

static int resolve_paths(struct hd_document *document, struct hd_node *options)
{
    HD_TRY(resolve(document, options, "path"));
    HD_TRY(resolve(document, options, "python"));
    for (int i = 0; i < N_SIDES; i++) {
        struct hd_node *own = (struct hd_node *)hd_node_get(options, sides[i]);
        if (own)
            HD_TRY(resolve_paths(document, own));
    }
    return HD_OK;
}

/* -- Arguments --------------------------------------------------------------------------------- */

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
    for (int64_t i = 0; i < options->count; i++) {
        const char *name = options->keys[i]->text;
        const struct hd_node *item = options->items[i];
        if (is_side(name) ? check_arguments(item, diag) != HD_OK
                          : has_arguments(name) && check_words(item, diag) != HD_OK)
            status = HD_ERR_INPUT;
    }
    return status;
}

static int check_sides(const struct hd_node *options, struct hd_diag *diag)
{
    int status = HD_OK;
    for (int i = 0; i < N_SIDES; i++) {
        const struct hd_node *own = hd_node_get(options, sides[i]);
        if (own && own->kind != HD_NODE_MAP)
            status = hd_diag_add_error(diag, own->location,
                                       "env.options.%s: expected a map of options", sides[i]);
    }
    return status;
}

static int resolve_options(struct hd_config *config, struct hd_document *document,
                           const struct hd_node *options, struct hd_diag *diag)
{
    const bool gymnasium = strstr(hd_config_get_text(config, "env.type"), "gymnasium");
    struct hd_node *copy = hd_node_copy(document, options),
                   *folded = hd_node_create_map(document, options->location);
    if (!copy || !folded)
        return HD_ERR_NOMEM;
    HD_TRY(fold(document, copy, folded));
    HD_TRY(check_sides(folded, diag));
    if (gymnasium) {
        HD_TRY(check_arguments(folded, diag));
        HD_TRY(resolve_paths(document, folded));
    }
    return hd_config_override_tree(config, "env.options", folded);
}

int hd_env_options_resolve(struct hd_config *config, struct hd_diag *diag)
{
    const struct hd_node *options = hd_config_get_node(config, "env.options");
    struct hd_document *document;
    if (!options || options->kind != HD_NODE_MAP)
        return HD_OK;
    HD_TRY(hd_document_create(&document));
    const int status = resolve_options(config, document, options, diag);
    hd_document_destroy(document);
    return status;
}

/* -- Settings ---------------------------------------------------------------------------------- */

static int64_t count_options(const struct hd_node *map)
{
    int64_t n = map ? map->count : 0;
    for (int64_t i = 0; map && i < map->count; i++)
        if (map->items[i]->kind == HD_NODE_MAP)
            n += map->items[i]->count;
    return n;
}

/* Returns where an option goes: in the place of one of that name, but for arguments, of which later
 * ones lie over earlier ones. */
static struct hd_env_option *place_option(struct hd_env_settings *settings, const char *name)
{
    struct hd_env_option *options = (struct hd_env_option *)settings->options;
    for (int i = 0; i < settings->n_options && strcmp(name, "kwargs") != 0; i++)
        if (strcmp(options[i].name, name) == 0) {
            hd_free((void *)options[i].value);
            return &options[i];
        }
    return &options[settings->n_options++];
}

static int add_option(struct hd_env_settings *settings, const char *name,
                      const struct hd_node *item)
{
    const bool plain = item->kind == HD_NODE_SCALAR && !strchr(name, '.');
    struct hd_env_option *option = place_option(settings, name);
    option->name = name;
    option->value = plain ? hd_strdup(item->text) : hd_node_build_json(item);
    return option->value ? HD_OK : HD_ERR_NOMEM;
}

bool hd_env_is_plugin(const struct hd_config *config)
{
    return !hd_env_find_builtin(hd_config_get_text(config, "env.type"));
}

int hd_env_options_read(const struct hd_config *config, struct hd_env_settings *settings)
{
    const struct hd_node *map = hd_config_get_node(config, "env.options");
    settings->env_id = hd_config_get_text(config, "env.env_id");
    settings->parts = hd_obs_has_inputs(config);
    settings->options = hd_alloc(count_options(map), sizeof *settings->options);
    settings->n_options = 0;
    if (!settings->options)
        return HD_ERR_NOMEM;
    if (!map)
        return HD_OK;
    for (int64_t i = 0; i < map->count; i++)
        if (!is_side(map->keys[i]->text))
            HD_TRY(add_option(settings, map->keys[i]->text, map->items[i]));
    const struct hd_node *own = hd_node_get(map, sides[settings->evaluator]);
    for (int64_t i = 0; own && i < own->count; i++)
        HD_TRY(add_option(settings, own->keys[i]->text, own->items[i]));
    return HD_OK;
}

void hd_env_options_release(struct hd_env_settings *settings)
{
    for (int i = 0; i < settings->n_options; i++)
        hd_free((void *)settings->options[i].value);
    hd_free((void *)settings->options);
}

/* Returns the option whose name comes next after `last`; NULL: none. */
static const struct hd_env_option *find_next(const struct hd_env_settings *settings,
                                             const char *last)
{
    const struct hd_env_option *next = NULL;
    for (int i = 0; i < settings->n_options; i++) {
        const struct hd_env_option *option = &settings->options[i];
        if (strcmp(option->name, last) > 0 && (!next || strcmp(option->name, next->name) < 0))
            next = option;
    }
    return next;
}

void hd_env_options_format(const struct hd_env_settings *settings, char *text, size_t bytes)
{
    static const char *const places[] = {"path", "python", "render"};
    const struct hd_env_option *option = find_next(settings, "");
    size_t at = 0;
    for (text[0] = '\0'; option && at < bytes; option = find_next(settings, option->name)) {
        bool counts = true;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            counts &= strcmp(option->name, places[i]) != 0;
        if (counts)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s: %s", at ? ", " : "", option->name,
                                   option->value);
    }
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
    if (hd_obs_shape_make(spec_p, 1).frame_bytes == hd_env_get_frame_bytes(spec_p))
        return HD_OK;
    return hd_diag_add_error(diag, place, "env.type %s: its parts are not the bytes of its frames",
                             type);
}
