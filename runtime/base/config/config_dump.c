/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/config_internal.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

/* The keys that are written: those that begin with one of prefixes[n]; all if there is none. */
struct part {
    const char *const *prefixes;
    int n;
};

static bool is_in_part(const struct part *part, const struct hd_node *level)
{
    for (int i = 0; level->kind == HD_NODE_SCALAR && i < part->n; i++)
        if (strncmp(level->text, part->prefixes[i], strlen(part->prefixes[i])) == 0)
            return true;
    for (int64_t i = 0; level->kind != HD_NODE_SCALAR && i < level->count; i++)
        if (is_in_part(part, level->items[i]))
            return true;
    return part->n == 0;
}

/* Returns the effective values as a tree nested as `level`, with their scopes as comments. */
static struct hd_node *effective_tree(const struct hd_config *config, const struct part *part,
                                      const struct hd_node *level, struct hd_document *document)
{
    if (level->kind == HD_NODE_SCALAR) {
        const struct hd_setting *setting = hd_config_find_setting(config, level->text);
        struct hd_node *node = hd_node_create_scalar(document, setting->node->location, "");
        if (node) {
            *node = *setting->node;
            node->comment = setting->key->scope;
        }
        return node;
    }
    struct hd_node *map = hd_node_create_map(document, level->location);
    for (int64_t i = 0; map && i < level->count; i++) {
        if (!is_in_part(part, level->items[i]))
            continue;
        struct hd_node *child = effective_tree(config, part, level->items[i], document);
        if (!child || hd_node_put(document, map, level->keys[i]->text, child) != HD_OK)
            return NULL;
    }
    return map;
}

int hd_config_dump(const struct hd_config *config, const char *const *prefixes, int n, FILE *file)
{
    const struct part part = {prefixes, n};
    struct hd_document *document;
    HD_TRY(hd_document_create(&document));
    const struct hd_node *tree = effective_tree(config, &part, config->levels, document);
    int status = tree ? hd_node_dump(tree, file) : HD_ERR_NOMEM;
    hd_document_destroy(document);
    if (status == HD_ERR_SYSTEM)
        hd_log(HD_LOG_ERROR, "cannot write the configuration");
    return status;
}

char *hd_config_format(const struct hd_config *config, const char *const *prefixes, int n)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    int status = memory ? hd_config_dump(config, prefixes, n, memory) : HD_ERR_NOMEM;
    if (memory && fclose(memory) != 0)
        status = HD_ERR_NOMEM;
    if (status == HD_OK)
        return text;
    free(text);
    return NULL;
}

static bool is_listed(const char *path, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(path, list[i]))
            return true;
    return false;
}

uint64_t hd_config_hash(const struct hd_config *config, const char *const *without, int n)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < config->count; i++) {
        const struct hd_setting *setting = &config->settings[i];
        if (is_listed(setting->key->path, without, n))
            continue;
        hash = hd_hash_mix(hash, hd_hash_text(setting->key->path));
        hash = hd_hash_mix(hash, hd_setting_hash(setting));
    }
    return hash;
}

int hd_config_list(const struct hd_config *config, const char *const *without, int n, FILE *file)
{
    for (int64_t i = 0; i < config->count; i++) {
        const struct hd_setting *setting = &config->settings[i];
        if (is_listed(setting->key->path, without, n))
            continue;
        fprintf(file, "%s\t%016llx\t", setting->key->path,
                (unsigned long long)hd_setting_hash(setting));
        for (const char *c = setting->node->text ? setting->node->text : ""; *c; c++)
            fputc((unsigned char)*c < ' ' ? ' ' : *c, file);
        fputc('\n', file);
    }
    return ferror(file) ? HD_ERR_NOMEM : HD_OK;
}
