/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/config/node_internal.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { BLOCK_BYTES = 1 << 14 };

/* -- Memory: blocks that are released together ------------------------------------------------- */

struct block {
    struct block *next;
    int64_t used, size;
    _Alignas(max_align_t) char bytes[];
};

struct hd_document {
    struct block *blocks;
    struct hd_node *root;
    const char *last_file; /* the newest file name, which the nodes of one file share */
};

void *hd_document_alloc(struct hd_document *document, int64_t count, size_t size)
{
    int64_t align = _Alignof(max_align_t);
    int64_t bytes = (count * (int64_t)size + align - 1) / align * align;
    struct block *block = document->blocks;
    if (!block || block->size - block->used < bytes) {
        int64_t usable = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = hd_alloc((int64_t)sizeof *block + usable, 1);
        if (!block)
            return NULL;
        block->size = usable;
        block->next = document->blocks;
        document->blocks = block;
    }
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

char *hd_document_copy_text(struct hd_document *document, const char *text, size_t length)
{
    char *copy = hd_document_alloc(document, (int64_t)length + 1, 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

int hd_document_create(struct hd_document **document_p)
{
    struct hd_document *document = hd_alloc(1, sizeof *document);
    if (!document)
        return HD_ERR_NOMEM;
    *document_p = document;
    return HD_OK;
}

void hd_document_destroy(struct hd_document *document)
{
    if (!document)
        return;
    while (document->blocks) {
        struct block *next = document->blocks->next;
        hd_free(document->blocks);
        document->blocks = next;
    }
    hd_free(document);
}

struct hd_node *hd_document_get_root(const struct hd_document *document)
{
    return document->root;
}

void hd_document_set_root(struct hd_document *document, struct hd_node *root)
{
    document->root = root;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

struct hd_node *hd_node_create(struct hd_document *document, enum hd_node_kind kind,
                               struct hd_source_location location)
{
    struct hd_node *node = hd_document_alloc(document, 1, sizeof *node);
    if (node) {
        node->kind = kind;
        node->location = location;
    }
    return node;
}

struct hd_node *hd_node_get(const struct hd_node *map, const char *key)
{
    if (!map || map->kind != HD_NODE_MAP)
        return NULL;
    for (int64_t i = 0; i < map->count; i++)
        if (!strcmp(map->keys[i]->text, key))
            return map->items[i];
    return NULL;
}

struct hd_node *hd_node_create_scalar(struct hd_document *document,
                                      struct hd_source_location location, const char *text)
{
    struct hd_node *node = hd_node_create(document, HD_NODE_SCALAR, location);
    if (node)
        node->text = hd_document_copy_text(document, text, strlen(text));
    return node && node->text ? node : NULL;
}

struct hd_node *hd_node_create_map(struct hd_document *document, struct hd_source_location location)
{
    return hd_node_create(document, HD_NODE_MAP, location);
}

int hd_node_put(struct hd_document *document, struct hd_node *map, const char *key,
                struct hd_node *value)
{
    for (int64_t i = 0; i < map->count; i++)
        if (!strcmp(map->keys[i]->text, key)) {
            map->items[i] = value;
            return HD_OK;
        }
    int64_t n = map->count;
    struct hd_node **keys = hd_document_alloc(document, n + 1, sizeof *keys);
    struct hd_node **items = hd_document_alloc(document, n + 1, sizeof *items);
    struct hd_node *name = hd_node_create_scalar(document, value->location, key);
    if (!keys || !items || !name)
        return HD_ERR_NOMEM;
    if (n > 0) {
        memcpy(keys, map->keys, (size_t)n * sizeof *keys);
        memcpy(items, map->items, (size_t)n * sizeof *items);
    }
    keys[n] = name;
    items[n] = value;
    map->keys = keys;
    map->items = items;
    map->count = n + 1;
    return HD_OK;
}

const char *hd_document_copy_file_name(struct hd_document *document, const char *file)
{
    if (!document->last_file || strcmp(document->last_file, file))
        document->last_file = hd_document_copy_text(document, file, strlen(file));
    return document->last_file;
}

static struct hd_node **copy_list(struct hd_document *document, struct hd_node *const *list,
                                  int64_t count)
{
    struct hd_node **copy = hd_document_alloc(document, count, sizeof *copy);
    for (int64_t i = 0; copy && i < count; i++) {
        copy[i] = hd_node_copy(document, list[i]);
        if (!copy[i])
            return NULL;
    }
    return copy;
}

struct hd_node *hd_node_copy(struct hd_document *document, const struct hd_node *node)
{
    struct hd_source_location location = node->location;
    location.file = hd_document_copy_file_name(document, location.file);
    struct hd_node *copy = location.file ? hd_node_create(document, node->kind, location) : NULL;
    if (!copy)
        return NULL;
    copy->quoted = node->quoted;
    copy->count = node->count;
    if (node->text &&
        !(copy->text = hd_document_copy_text(document, node->text, strlen(node->text))))
        return NULL;
    if (node->comment &&
        !(copy->comment = hd_document_copy_text(document, node->comment, strlen(node->comment))))
        return NULL;
    if (node->keys && !(copy->keys = copy_list(document, node->keys, node->count)))
        return NULL;
    if (node->items && !(copy->items = copy_list(document, node->items, node->count)))
        return NULL;
    return copy;
}

int hd_node_insert(struct hd_document *document, struct hd_node *list, int64_t at,
                   struct hd_node *item)
{
    struct hd_node **items = hd_document_alloc(document, list->count + 1, sizeof *items);
    if (!items)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i <= list->count; i++)
        items[i] = i == at ? item : list->items[i > at ? i - 1 : i];
    list->items = items;
    list->count++;
    return HD_OK;
}

static const char *skip_digits(const char *text)
{
    while (isdigit((unsigned char)*text))
        text++;
    return text;
}

/* strtod alone would take inf, nan, hexadecimal and spaces. */
bool hd_node_is_decimal(const struct hd_node *node)
{
    if (node->kind != HD_NODE_SCALAR || node->quoted)
        return false;
    const char *start = node->text + (node->text[0] == '-' || node->text[0] == '+');
    const char *end = skip_digits(start);
    bool digits = end > start;
    if (*end == '.') {
        start = end + 1;
        end = skip_digits(start);
        digits = digits || end > start;
    }
    if (digits && (*end == 'e' || *end == 'E')) {
        start = end + 1 + (end[1] == '-' || end[1] == '+');
        end = skip_digits(start);
        digits = end > start;
    }
    return digits && !*end;
}

const char *hd_node_find_ambiguous(const struct hd_node *node)
{
    static const char *const words[][2] = {
        {"yes", "true"}, {"on", "true"}, {"no", "false"}, {"off", "false"}};
    for (int i = 0; node->kind == HD_NODE_SCALAR && !node->quoted && i < 4; i++)
        if (strcasecmp(node->text, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}
