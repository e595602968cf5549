/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of configuration values whose every node knows where it was written. Several threads may
 * read a tree; one at a time may build in a document. */
#pragma once

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

/* A document owns the nodes, texts and file names that are created in it. */
struct hd_document;

/* Creates an empty document to build trees in; its root is NULL. Returns HD_OK or HD_ERR_NOMEM
 * (logged). hd_document_destroy releases it with all it owns, and accepts NULL. */
int hd_document_create(struct hd_document **document_p);
void hd_document_destroy(struct hd_document *document);

/* Returns the top node. */
struct hd_node *hd_document_get_root(const struct hd_document *document);

/* Returns the value of `key` in a map, or NULL; also NULL when `map` is NULL or no map. */
struct hd_node *hd_node_get(const struct hd_node *map, const char *key);

/* Returns whether a node is a decimal number, as YAML writes them, without quotes. */
bool hd_node_is_decimal(const struct hd_node *node);

/* Returns "true" or "false" for a scalar without quotes that YAML 1.1 takes for this boolean, and
 * YAML 1.2 for a text (yes, no, on, off); else NULL. */
const char *hd_node_find_ambiguous(const struct hd_node *node);

/* Create nodes that `document` owns; NULL (logged) without memory. They copy texts, but
 * location.file must outlive the document. */
struct hd_node *hd_node_create_scalar(struct hd_document *document,
                                      struct hd_source_location location, const char *text);
struct hd_node *hd_node_create_map(struct hd_document *document,
                                   struct hd_source_location location);

/* Copies a whole tree with its file names, so that it may outlive the other's document. Returns
 * NULL (logged) without memory. */
struct hd_node *hd_node_copy(struct hd_document *document, const struct hd_node *node);

/* Puts key: value into a map, in place of the key's value if it has one. Returns HD_OK or
 * HD_ERR_NOMEM (logged). */
int hd_node_put(struct hd_document *document, struct hd_node *map, const char *key,
                struct hd_node *value);

/* Inserts an item into a list, before item `at`, 0 … count. Returns HD_OK or HD_ERR_NOMEM (logged).
 */
int hd_node_insert(struct hd_document *document, struct hd_node *list, int64_t at,
                   struct hd_node *item);
