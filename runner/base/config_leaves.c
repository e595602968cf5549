/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/config_leaves.h"

#include "runtime/base/alloc.h"
#include "runtime/base/config/yaml.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

/* Returns a leaf as the user would write it: a scalar, or a list of scalars; of a map its keys. */
static char *leaf_text(const struct hd_node *node)
{
    char *text = NULL;
    size_t bytes;
    if (node->kind == HD_NODE_SCALAR)
        return hd_strdup(node->text);
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return NULL;
    const bool list = node->kind == HD_NODE_LIST;
    fputs(list ? "[" : "{", memory);
    for (int64_t i = 0; i < node->count; i++)
        fprintf(memory, "%s%s", i > 0 ? ", " : "", (list ? node->items : node->keys)[i]->text);
    fputs(list ? "]" : "}", memory);
    fclose(memory);
    char *copy = hd_strdup(text);
    free(text);
    return copy;
}

static bool is_leaf(const struct hd_node *node)
{
    bool scalars = node->kind == HD_NODE_LIST || node->count == 0;
    for (int64_t i = 0; i < node->count; i++)
        scalars &= node->items[i]->kind == HD_NODE_SCALAR;
    return node->kind == HD_NODE_SCALAR || scalars;
}

/* Returns whether the order of a map's keys is that of a net's parameters. */
static bool is_ordered(const char *path)
{
    return strcmp(path, "policy.model.inputs") == 0 || strcmp(path, "policy.model.heads") == 0 ||
           strcmp(path, "policy.critic.heads") == 0;
}

static int add_leaf(const struct hd_node *node, const char *path, json_t *list)
{
    char *text = leaf_text(node);
    const int failed = !text || json_array_append_new(list, json_pack("[s, s]", path, text));
    hd_free(text);
    return failed ? HD_ERR_NOMEM : HD_OK;
}

static int flatten(const struct hd_node *node, const char *path, json_t *list)
{
    if (is_leaf(node) || is_ordered(path))
        HD_TRY(add_leaf(node, path, list));
    if (is_leaf(node))
        return HD_OK;
    for (int64_t i = 0; i < node->count; i++) {
        const char *dot = path[0] ? "." : "";
        char *below = node->kind == HD_NODE_MAP
                          ? hd_format("%s%s%s", path, dot, node->keys[i]->text)
                          : hd_format("%s%s%lld", path, dot, (long long)i);
        const int status = below ? flatten(node->items[i], below, list) : HD_ERR_NOMEM;
        hd_free(below);
        HD_TRY(status);
    }
    return HD_OK;
}

int hd_config_list_leaves(const char *name, const char *text, int64_t bytes, json_t *list)
{
    struct hd_diag *diag;
    struct hd_document *document = NULL;
    HD_TRY(hd_diag_create(&diag));
    int status = hd_document_parse(name, text, bytes, diag, &document);
    if (status != HD_OK)
        hd_diag_report(diag);
    else if (hd_document_get_root(document)->kind != HD_NODE_MAP)
        status = hd_fail(HD_ERR_FORMAT, "%s is not an effective config of a run", name);
    else
        status = flatten(hd_document_get_root(document), "", list);
    hd_document_destroy(document);
    hd_diag_destroy(diag);
    return status;
}

const char *hd_config_find_leaf(const json_t *list, const char *path)
{
    size_t i;
    json_t *leaf;
    json_array_foreach(list, i, leaf) {
        if (strcmp(json_string_value(json_array_get(leaf, 0)), path) == 0)
            return json_string_value(json_array_get(leaf, 1));
    }
    return NULL;
}
