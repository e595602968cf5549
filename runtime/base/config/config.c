/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/config.h"

#include "runtime/base/alloc.h"
#include "runtime/base/config/config_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

/* Several threads may ask. */
static void note_use(struct hd_setting *setting)
{
    if (setting)
        atomic_store_explicit(&setting->used, true, memory_order_relaxed);
}

static struct hd_setting *find(const struct hd_config *config, const char *path)
{
    struct hd_setting *setting = hd_config_find_setting(config, path);
    if (!setting) {
        hd_log(HD_LOG_ERROR, "the program asks for the key '%s', which no schema has", path);
        abort();
    }
    return setting;
}

static struct hd_setting *get(const struct hd_config *config, const char *path)
{
    struct hd_setting *setting = find(config, path);
    note_use(setting);
    return setting;
}

static struct hd_setting *get_kind(const struct hd_config *config, const char *path,
                                   enum hd_key_kind kind)
{
    struct hd_setting *setting = get(config, path);
    if (setting->key->kind != kind) {
        hd_log(HD_LOG_ERROR, "the program asks for the key '%s' as another kind", path);
        abort();
    }
    return setting;
}

int64_t hd_config_get_int(const struct hd_config *config, const char *path)
{
    return get_kind(config, path, HD_KEY_INT)->integer;
}

double hd_config_get_real(const struct hd_config *config, const char *path)
{
    return get_kind(config, path, HD_KEY_REAL)->real;
}

bool hd_config_get_bool(const struct hd_config *config, const char *path)
{
    return get_kind(config, path, HD_KEY_BOOL)->flag;
}

const char *hd_config_get_text(const struct hd_config *config, const char *path)
{
    const struct hd_setting *setting = get(config, path);
    if (setting->key->kind != HD_KEY_CHOICE)
        setting = get_kind(config, path, HD_KEY_TEXT);
    return setting->node->text;
}

const char *hd_config_get_word(const struct hd_config *config, const char *path)
{
    const struct hd_setting *setting = get(config, path);
    if (setting->key->kind != HD_KEY_INT_LIST && setting->key->kind != HD_KEY_SHAPES)
        setting = get_kind(config, path, HD_KEY_INT);
    return setting->word;
}

const int64_t *hd_config_get_ints(const struct hd_config *config, const char *path,
                                  int64_t *count_p)
{
    const struct hd_setting *setting = get(config, path);
    if (setting->key->kind != HD_KEY_SHAPES)
        setting = get_kind(config, path, HD_KEY_INT_LIST);
    *count_p = setting->count;
    return setting->ints;
}

const struct hd_node *hd_config_get_shapes(const struct hd_config *config, const char *path)
{
    const struct hd_node *node = get_kind(config, path, HD_KEY_SHAPES)->node;
    return node->kind == HD_NODE_MAP ? node : NULL;
}

static const struct hd_node *decided_by(const struct hd_setting *setting)
{
    bool tree_default =
        setting->key->kind >= HD_KEY_TREE && setting->key->initial && setting->key->initial[0];
    return setting->given || tree_default ? setting->node : NULL;
}

const struct hd_node *hd_config_get_node(const struct hd_config *config, const char *path)
{
    return decided_by(get(config, path));
}

const struct hd_node *hd_config_peek_node(const struct hd_config *config, const char *path)
{
    return decided_by(find(config, path));
}

struct hd_source_location hd_config_locate(const struct hd_config *config, const char *path,
                                           struct hd_source_location otherwise)
{
    const struct hd_node *node = hd_config_peek_node(config, path);
    return node ? node->location : otherwise;
}

/* Among the keys with texts, or those with numbers. */
static const char *nearest_path(const struct hd_config *config, const char *path, bool text)
{
    const char **names = hd_alloc(config->count, sizeof *names);
    if (!names)
        return NULL;
    for (int64_t i = 0; i < config->count; i++) {
        const struct hd_key *key = config->settings[i].key;
        const bool fits = text ? key->kind == HD_KEY_TEXT || key->kind == HD_KEY_CHOICE
                               : key->kind == HD_KEY_INT || key->kind == HD_KEY_REAL ||
                                     key->kind == HD_KEY_BOOL || key->kind == HD_KEY_MAP;
        names[i] = fits ? key->path : NULL;
    }
    const char *nearest = hd_find_nearest_name(path, names, config->count);
    hd_free(names);
    return nearest;
}

bool hd_config_find_number(const struct hd_config *config, const char *path, double *value_p,
                           const char **nearest_p)
{
    struct hd_setting *setting = hd_config_find_setting(config, path);
    note_use(setting);
    enum hd_key_kind kind = setting ? setting->key->kind : HD_KEY_TEXT;
    if (kind == HD_KEY_REAL)
        *value_p = setting->real;
    else if (kind == HD_KEY_BOOL)
        *value_p = setting->flag;
    else if (kind == HD_KEY_MAP)
        *value_p = (double)setting->node->count;
    else if (kind == HD_KEY_INT && !setting->word)
        *value_p = (double)setting->integer;
    else
        *nearest_p = setting ? NULL : nearest_path(config, path, false);
    return kind == HD_KEY_REAL || kind == HD_KEY_BOOL || kind == HD_KEY_MAP ||
           (kind == HD_KEY_INT && !setting->word);
}

const char *hd_config_find_text(const struct hd_config *config, const char *path,
                                const char **nearest_p)
{
    struct hd_setting *setting = hd_config_find_setting(config, path);
    *nearest_p = setting ? NULL : nearest_path(config, path, true);
    if (!setting || (setting->key->kind != HD_KEY_TEXT && setting->key->kind != HD_KEY_CHOICE))
        return NULL;
    return hd_config_get_text(config, path);
}

static const struct hd_inner_set *find_inner_set(const struct hd_config *config, const char *path,
                                                 int64_t i)
{
    const struct hd_setting *tree = get_kind(config, path, HD_KEY_TREE);
    for (int64_t k = 0; k < config->inner_count; k++)
        if (config->inner_sets[k].tree == tree && i-- == 0)
            return &config->inner_sets[k];
    return NULL;
}

const struct hd_node *hd_config_get_inner_set(const struct hd_config *config, const char *path,
                                              int64_t i, const struct hd_node **value_p)
{
    const struct hd_inner_set *set = find_inner_set(config, path, i);
    if (!set)
        return NULL;
    *value_p = set->value;
    return set->name;
}

void hd_config_forget_use(const struct hd_config *config, const char *path)
{
    atomic_store_explicit(&find(config, path)->used, false, memory_order_relaxed);
}

void hd_config_report_unused(const struct hd_config *config, const char *user, struct hd_diag *diag)
{
    for (int64_t i = 0; i < config->count; i++) {
        struct hd_setting *setting = &config->settings[i];
        const char *path = setting->key->path;
        if (setting->given && !atomic_load_explicit(&setting->used, memory_order_relaxed) &&
            hd_setting_hash(setting) != setting->default_hash)
            hd_diag_add_error(diag, setting->node->location, "%s is not used by %s", path, user);
    }
}

static int override(struct hd_config *config, struct hd_setting *setting, const char *text,
                    struct hd_diag *diag)
{
    struct hd_node *node;
    HD_TRY(hd_node_parse(config->nodes, (struct hd_source_location){.file = "derived value"}, text,
                         diag, &node));
    return hd_setting_read(setting, node, diag);
}

int hd_config_override(struct hd_config *config, const char *path, const char *text)
{
    struct hd_diag *diag;
    HD_TRY(hd_diag_create(&diag));
    int status = override(config, get(config, path), text, diag);
    hd_diag_report(diag);
    hd_diag_destroy(diag);
    return status;
}

int hd_config_override_tree(struct hd_config *config, const char *path, const struct hd_node *node)
{
    struct hd_setting *setting = get(config, path);
    if (setting->key->kind != HD_KEY_MAP)
        setting = get_kind(config, path, HD_KEY_TREE);
    const struct hd_node *copy = hd_node_copy(config->nodes, node);
    if (!copy)
        return HD_ERR_NOMEM;
    int64_t kept = 0;
    for (int64_t i = 0; i < config->inner_count; i++)
        if (config->inner_sets[i].tree != setting)
            config->inner_sets[kept++] = config->inner_sets[i];
    config->inner_count = kept;
    setting->node = copy;
    setting->given = true;
    return HD_OK;
}
