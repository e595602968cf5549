/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files as trees whose every node knows its place. Aliases share nodes, except scalars, which
 * are copied so that each knows its own place. Not accepted: an alias inside its own anchor,
 * duplicate keys, keys that are no scalars, merge keys, tags outside YAML's core, several
 * documents, more than 64 levels, 100,000 nodes (aliases expanded) or 16 MiB. */
#ifndef HD_RUNTIME_BASE_CONFIG_YAML_H
#define HD_RUNTIME_BASE_CONFIG_YAML_H

#include "runtime/base/config/diag.h"

#include <stdbool.h>

enum hd_node_kind { HD_NODE_SCALAR, HD_NODE_LIST, HD_NODE_MAP };

struct hd_node {
    enum hd_node_kind kind;
    struct hd_source_location location;
    const char *text;       /* scalar: its text; else NULL */
    bool quoted;            /* scalar: written in quotes or as a block */
    struct hd_node **items; /* list items, or map values */
    struct hd_node **keys;  /* map keys, all scalars; else NULL */
    int64_t count;          /* of items */
    const char *comment; /* hd_node_dump writes it behind the value; NULL when read from a file */
};

struct hd_document;

/* Reads a file, or text[bytes] called `name`, in UTF-8. Mistakes, several where possible, go to
 * diag and return HD_ERR_INPUT. The document owns all nodes and names; released by
 * hd_document_destroy (accepts NULL). */
int hd_document_read(const char *path, struct hd_diag *diag, struct hd_document **document_p);
int hd_document_parse(const char *name, const char *text, int64_t bytes, struct hd_diag *diag,
                      struct hd_document **document_p);
/* An empty document to build trees in; its root is NULL. */
int hd_document_create(struct hd_document **document_p);
void hd_document_destroy(struct hd_document *document);

/* The top node. */
struct hd_node *hd_document_get_root(const struct hd_document *document);

/* The value of `key` in a map, or NULL (also when `map` is NULL or no map). */
struct hd_node *hd_node_get(const struct hd_node *map, const char *key);

/* Parses a value that stands inside something else, such as a command line option: the locations of
 * its nodes are `origin` moved on by the characters before them. An empty text is an empty scalar.
 * The nodes are owned by `document`; origin.file must outlive it. */
int hd_node_parse(struct hd_document *document, struct hd_source_location origin, const char *text,
                  struct hd_diag *diag, struct hd_node **node_p);

/* Building trees, owned by `document`; NULL (logged) without memory. Names and texts are copied,
 * but location.file must outlive the document. */
struct hd_node *hd_node_create_scalar(struct hd_document *document,
                                      struct hd_source_location location, const char *text);
struct hd_node *hd_node_create_map(struct hd_document *document,
                                   struct hd_source_location location);

/* A copy of a whole tree, file names included, so that it may outlive the other's document. */
struct hd_node *hd_node_copy(struct hd_document *document, const struct hd_node *node);

/* Puts (or replaces) key: value in a map. */
int hd_node_put(struct hd_document *document, struct hd_node *map, const char *key,
                struct hd_node *value);

/* Writes a tree as YAML text that reads back to an equal tree: block style, leaves (maps and lists
 * of scalars only) in flow style; keys in order; quotes kept. HD_ERR_SYSTEM when writing fails. */
int hd_node_dump(const struct hd_node *node, FILE *file);

#endif
