/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/config/node_internal.h"
#include "runtime/base/config/yaml_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = 64,
    MAX_NODES = 100000,
    MAX_BYTES = 16 << 20,
    MAX_ANCHORS = 1000,
    MAX_KEY_BYTES = 200, /* written with escapes, still within YAML's 1024 for keys on one line */
    READ_BYTES = 1 << 14
};

struct anchor {
    char *name;
    struct hd_node *node; /* NULL: still open */
    int64_t size;         /* nodes, aliases expanded */
    int height;           /* levels */
};

struct parser {
    yaml_parser_t yaml;
    struct hd_yaml_source source;
    struct hd_document *document;
    bool wrong;             /* a mistake was found, but parsing can go on to find more */
    int64_t size;           /* nodes so far, aliases expanded */
    struct hd_node **stack; /* children of the open collections */
    int64_t stack_count, stack_capacity;
    struct anchor *anchors;
    int64_t anchor_count, anchor_capacity;
};

static int next_event(struct parser *p, yaml_event_t *event)
{
    return yaml_parser_parse(&p->yaml, event) ? HD_OK : hd_yaml_explain(&p->source, &p->yaml);
}

static int count_nodes(struct parser *p, struct hd_source_location location, int64_t n)
{
    p->size += n;
    if (p->size > MAX_NODES)
        return hd_diag_add_error(p->source.diag, location,
                                 "more than %d keys and values (aliases expanded)", MAX_NODES);
    return HD_OK;
}

static int check_depth(struct parser *p, struct hd_source_location location, int depth)
{
    if (depth > MAX_DEPTH)
        return hd_diag_add_error(p->source.diag, location, "nested deeper than %d levels",
                                 MAX_DEPTH);
    return HD_OK;
}

static void check_tag(struct parser *p, struct hd_source_location location, const yaml_char_t *tag,
                      enum hd_node_kind kind)
{
    static const struct {
        const char *name;
        enum hd_node_kind kind;
    } core[] = {{"str", HD_NODE_SCALAR},  {"int", HD_NODE_SCALAR},  {"float", HD_NODE_SCALAR},
                {"bool", HD_NODE_SCALAR}, {"null", HD_NODE_SCALAR}, {"seq", HD_NODE_LIST},
                {"map", HD_NODE_MAP}};
    static const char prefix[] = "tag:yaml.org,2002:";
    const char *name = (const char *)tag;
    if (!name || !strcmp(name, "!"))
        return;
    for (size_t i = 0; !strncmp(name, prefix, strlen(prefix)) && i < sizeof core / sizeof *core;
         i++)
        if (core[i].kind == kind && !strcmp(name + strlen(prefix), core[i].name))
            return;
    hd_diag_add_error(p->source.diag, location,
                      "the tag '%.60s' is not supported here; leave it out", name);
    p->wrong = true;
}

static struct anchor *find_anchor(struct parser *p, const yaml_char_t *name)
{
    for (int64_t i = p->anchor_count - 1; i >= 0; i--)
        if (!strcmp(p->anchors[i].name, (const char *)name))
            return &p->anchors[i];
    return NULL;
}

/* Stores the index of the opened anchor, or -1 when the node has none. */
static int open_anchor(struct parser *p, struct hd_source_location location,
                       const yaml_char_t *name, int64_t *index_p)
{
    *index_p = -1;
    if (!name)
        return HD_OK;
    if (p->anchor_count >= MAX_ANCHORS)
        return hd_diag_add_error(p->source.diag, location, "more than %d anchors", MAX_ANCHORS);
    void *list = p->anchors;
    int status = hd_grow(&list, &p->anchor_capacity, p->anchor_count + 1, sizeof *p->anchors);
    p->anchors = list;
    HD_TRY(status);
    char *copy = hd_document_copy_text(p->document, (const char *)name, strlen((const char *)name));
    if (!copy)
        return HD_ERR_NOMEM;
    *index_p = p->anchor_count++;
    p->anchors[*index_p] = (struct anchor){.name = copy, .size = p->size};
    return HD_OK;
}

static void close_anchor(struct parser *p, int64_t index, struct hd_node *node, int height)
{
    if (index < 0)
        return;
    struct anchor *anchor = &p->anchors[index];
    anchor->node = node;
    anchor->size = p->size - anchor->size;
    anchor->height = height;
}

/* A node that was read, and its height in levels. */
struct reading {
    struct hd_node *node;
    int height;
};

static int parse_alias(struct parser *p, const yaml_event_t *event, int depth,
                       struct reading *reading_p)
{
    struct hd_source_location location = hd_yaml_locate(&p->source, event->start_mark);
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *anchor = find_anchor(p, event->data.alias.anchor);
    if (!anchor)
        return hd_diag_add_error(p->source.diag, location,
                                 "no anchor '&%.60s' stands before this alias", name);
    if (!anchor->node)
        return hd_diag_add_error(p->source.diag, location,
                                 "the alias '*%.60s' stands inside its own anchor", name);
    HD_TRY(count_nodes(p, location, anchor->size));
    HD_TRY(check_depth(p, location, depth - 1 + anchor->height));
    *reading_p = (struct reading){anchor->node, anchor->height};
    if (anchor->node->kind != HD_NODE_SCALAR)
        return HD_OK;
    struct hd_node *copy = hd_node_create(p->document, HD_NODE_SCALAR, location);
    if (!copy)
        return HD_ERR_NOMEM;
    copy->text = anchor->node->text;
    copy->quoted = anchor->node->quoted;
    reading_p->node = copy;
    return HD_OK;
}

static int parse_scalar(struct parser *p, const yaml_event_t *event, struct reading *reading_p)
{
    struct hd_source_location location = hd_yaml_locate(&p->source, event->start_mark);
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    const yaml_char_t *tag = event->data.scalar.tag;
    HD_TRY(count_nodes(p, location, 1));
    check_tag(p, location, tag, HD_NODE_SCALAR);
    if (strlen(text) != length) {
        hd_diag_add_error(p->source.diag, location, "the text holds a NUL character");
        p->wrong = true;
    }
    struct hd_node *node = hd_node_create_scalar(p->document, location, text);
    if (!node)
        return HD_ERR_NOMEM;
    bool string_tag = tag && !strcmp((const char *)tag, YAML_STR_TAG);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || string_tag;
    *reading_p = (struct reading){node, 0};
    return HD_OK;
}

static int parse_node(struct parser *p, const yaml_event_t *event, int depth,
                      struct reading *reading_p);

/* Pushes the children up to the end event onto p->stack; stores the greatest of their heights. */
static int parse_children(struct parser *p, yaml_event_type_t end, int depth, int *height_p)
{
    for (;;) {
        yaml_event_t event;
        HD_TRY(next_event(p, &event));
        bool ended = event.type == end;
        struct reading child;
        int status = ended ? HD_OK : parse_node(p, &event, depth, &child);
        yaml_event_delete(&event);
        if (ended || status != HD_OK)
            return status;
        void *stack = p->stack;
        status = hd_grow(&stack, &p->stack_capacity, p->stack_count + 1, sizeof *p->stack);
        p->stack = stack;
        HD_TRY(status);
        p->stack[p->stack_count++] = child.node;
        *height_p = child.height > *height_p ? child.height : *height_p;
    }
}

static bool check_key(struct parser *p, const struct hd_node *key)
{
    const char *wrong = NULL;
    if (key->kind != HD_NODE_SCALAR)
        wrong = "a key that is a list or a map; expected a plain name";
    else if (strlen(key->text) > MAX_KEY_BYTES)
        wrong = "a key longer than 200 bytes";
    else if (!key->quoted && !key->text[0])
        wrong = "an empty key; expected a name before ':'";
    else if (!key->quoted && !strcmp(key->text, "<<"))
        wrong = "merge keys ('<<') are not supported; write the keys out";
    if (!wrong)
        return true;
    hd_diag_add_error(p->source.diag, key->location, "%s", wrong);
    p->wrong = true;
    return false;
}

static int compare_keys(const void *left, const void *right)
{
    const struct hd_node *a = *(struct hd_node *const *)left;
    const struct hd_node *b = *(struct hd_node *const *)right;
    int order = strcmp(a->text, b->text);
    if (order)
        return order;
    if (a->location.line != b->location.line)
        return a->location.line < b->location.line ? -1 : 1;
    return (a->location.column > b->location.column) - (a->location.column < b->location.column);
}

static int check_duplicates(struct parser *p, const struct hd_node *map)
{
    struct hd_node **sorted = hd_alloc(map->count, sizeof *sorted);
    if (!sorted)
        return HD_ERR_NOMEM;
    memcpy(sorted, map->keys, (size_t)map->count * sizeof *sorted);
    qsort(sorted, (size_t)map->count, sizeof *sorted, compare_keys);
    for (int64_t i = 1; i < map->count; i++)
        if (!strcmp(sorted[i - 1]->text, sorted[i]->text)) {
            const struct hd_source_location *first = &sorted[i - 1]->location;
            hd_diag_add_error(p->source.diag, sorted[i]->location,
                              "duplicate key '%s', first at %d:%d", sorted[i]->text, first->line,
                              first->column);
            p->wrong = true;
        }
    hd_free(sorted);
    return HD_OK;
}

/* Moves children from the stack, keys and values by turns, into the map. */
static int fill_map(struct parser *p, struct hd_node *map, struct hd_node *const *children,
                    int64_t count)
{
    map->keys = hd_document_alloc(p->document, count / 2, sizeof *map->keys);
    map->items = hd_document_alloc(p->document, count / 2, sizeof *map->items);
    if (!map->keys || !map->items)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i + 1 < count; i += 2) {
        if (!check_key(p, children[i]))
            continue;
        map->keys[map->count] = children[i];
        map->items[map->count++] = children[i + 1];
    }
    return check_duplicates(p, map);
}

static int fill_list(struct parser *p, struct hd_node *list, struct hd_node *const *children,
                     int64_t count)
{
    list->items = hd_document_alloc(p->document, count, sizeof *list->items);
    if (!list->items)
        return HD_ERR_NOMEM;
    if (count > 0)
        memcpy(list->items, children, (size_t)count * sizeof *children);
    list->count = count;
    return HD_OK;
}

static int parse_collection(struct parser *p, const yaml_event_t *event, int depth,
                            struct reading *reading_p)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    enum hd_node_kind kind = is_map ? HD_NODE_MAP : HD_NODE_LIST;
    struct hd_source_location location = hd_yaml_locate(&p->source, event->start_mark);
    int64_t anchor, first = p->stack_count;
    int height = 0;
    HD_TRY(check_depth(p, location, depth));
    HD_TRY(open_anchor(
        p, location, is_map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
        &anchor));
    HD_TRY(count_nodes(p, location, 1));
    check_tag(p, location, is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag,
              kind);
    struct hd_node *node = hd_node_create(p->document, kind, location);
    if (!node)
        return HD_ERR_NOMEM;
    HD_TRY(parse_children(p, is_map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT, depth + 1,
                          &height));
    int64_t count = p->stack_count - first;
    struct hd_node *const *children = count > 0 ? p->stack + first : NULL;
    HD_TRY(is_map ? fill_map(p, node, children, count) : fill_list(p, node, children, count));
    p->stack_count = first;
    close_anchor(p, anchor, node, height + 1);
    *reading_p = (struct reading){node, height + 1};
    return HD_OK;
}

static int parse_node(struct parser *p, const yaml_event_t *event, int depth,
                      struct reading *reading_p)
{
    if (event->type == YAML_ALIAS_EVENT)
        return parse_alias(p, event, depth, reading_p);
    if (event->type != YAML_SCALAR_EVENT)
        return parse_collection(p, event, depth, reading_p);
    int64_t anchor;
    HD_TRY(open_anchor(p, hd_yaml_locate(&p->source, event->start_mark), event->data.scalar.anchor,
                       &anchor));
    HD_TRY(parse_scalar(p, event, reading_p));
    close_anchor(p, anchor, reading_p->node, reading_p->height);
    return HD_OK;
}

/* Reads one event that must be of the given type; false in *found_p when it is another. */
static int expect(struct parser *p, yaml_event_type_t type, bool *found_p,
                  struct hd_source_location *location_p)
{
    yaml_event_t event;
    HD_TRY(next_event(p, &event));
    *found_p = event.type == type;
    *location_p = hd_yaml_locate(&p->source, event.start_mark);
    yaml_event_delete(&event);
    return HD_OK;
}

/* Parses the whole text as one document with one node. Stores NULL when there is none. */
static int parse_stream(struct parser *p, struct hd_node **root_p)
{
    bool found;
    struct hd_source_location location;
    yaml_event_t event;
    HD_TRY(expect(p, YAML_STREAM_START_EVENT, &found, &location));
    HD_TRY(expect(p, YAML_DOCUMENT_START_EVENT, &found, &location));
    if (!found) {
        *root_p = NULL;
        return HD_OK;
    }
    HD_TRY(next_event(p, &event));
    struct reading reading = {0};
    int status = parse_node(p, &event, 1, &reading);
    yaml_event_delete(&event);
    HD_TRY(status);
    HD_TRY(expect(p, YAML_DOCUMENT_END_EVENT, &found, &location));
    HD_TRY(expect(p, YAML_STREAM_END_EVENT, &found, &location));
    if (!found)
        return hd_diag_add_error(p->source.diag, location,
                                 "a second document starts; expected one in a file");
    *root_p = reading.node;
    return p->wrong ? HD_ERR_INPUT : HD_OK;
}

static int run_parser(struct parser *p, struct hd_node **root_p)
{
    if (!yaml_parser_initialize(&p->yaml))
        return hd_fail(HD_ERR_NOMEM, "no memory to parse %s", p->source.origin.file);
    yaml_parser_set_encoding(&p->yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p->yaml, (const unsigned char *)p->source.text, p->source.bytes);
    int status = parse_stream(p, root_p);
    yaml_parser_delete(&p->yaml);
    hd_free(p->stack);
    hd_free(p->anchors);
    return status;
}

int hd_node_parse(struct hd_document *document, struct hd_source_location origin, const char *text,
                  struct hd_diag *diag, struct hd_node **node_p)
{
    struct parser p = {.source = {text, strlen(text), origin, true, diag}, .document = document};
    struct hd_node *node;
    HD_TRY(run_parser(&p, &node));
    if (!node)
        node = hd_node_create_scalar(document, origin, "");
    if (!node)
        return HD_ERR_NOMEM;
    *node_p = node;
    return HD_OK;
}

static int parse_document(struct hd_document *document, const char *name, const char *text,
                          int64_t bytes, struct hd_diag *diag)
{
    struct hd_source_location whole = {.file = hd_document_copy_file_name(document, name)};
    struct parser p = {.source = {text, (size_t)bytes, whole, false, diag}, .document = document};
    struct hd_node *root;
    if (!whole.file)
        return HD_ERR_NOMEM;
    if (bytes > MAX_BYTES)
        return hd_diag_add_error(diag, whole, "larger than 16 MiB");
    if (bytes >= 2 && (!memcmp(text, "\xFE\xFF", 2) || !memcmp(text, "\xFF\xFE", 2)))
        return hd_diag_add_error(diag, whole, "UTF-16 text; expected UTF-8");
    if (bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) {
        p.source.text += 3;
        p.source.bytes -= 3;
    }
    HD_TRY(run_parser(&p, &root));
    if (!root)
        return hd_diag_add_error(diag, whole, "the file holds no value");
    hd_document_set_root(document, root);
    return HD_OK;
}

int hd_document_parse(const char *name, const char *text, int64_t bytes, struct hd_diag *diag,
                      struct hd_document **document_p)
{
    struct hd_document *document;
    HD_TRY(hd_document_create(&document));
    int status = parse_document(document, name, text, bytes, diag);
    if (status == HD_OK)
        *document_p = document;
    else
        hd_document_destroy(document);
    return status;
}

/* -- Files ------------------------------------------------------------------------------------- */

/* Reads up to MAX_BYTES + 1 bytes, so that the parser sees when a file is too large. */
static int read_bytes(FILE *file, char **text_p, int64_t *bytes_p)
{
    void *text = NULL;
    int64_t capacity = 0, bytes = 0;
    size_t got = 1;
    while (got > 0 && bytes <= MAX_BYTES) {
        int status = hd_grow(&text, &capacity, bytes + READ_BYTES, 1);
        if (status != HD_OK) {
            hd_free(text);
            return status;
        }
        int64_t limit = MAX_BYTES + 1 - bytes;
        limit = capacity - bytes < limit ? capacity - bytes : limit;
        got = fread((char *)text + bytes, 1, (size_t)limit, file);
        bytes += (int64_t)got;
    }
    *text_p = text;
    *bytes_p = bytes;
    return HD_OK;
}

int hd_document_read(const char *path, enum hd_input from, struct hd_diag *diag,
                     struct hd_document **document_p)
{
    struct hd_source_location whole = {.file = path};
    char why[HD_INPUT_WHY], *text = NULL;
    FILE *file = hd_input_open_stream(path, from, why);
    if (!file)
        return hd_diag_add_error(diag, whole, "%s", why);
    int64_t bytes = 0;
    int status = read_bytes(file, &text, &bytes);
    if (status == HD_OK && ferror(file))
        status = hd_diag_add_error(diag, whole, "cannot be read: %s", strerror(errno));
    if (status == HD_OK)
        status = hd_document_parse(path, text, bytes, diag, document_p);
    hd_free(text);
    fclose(file);
    return status;
}
