/* SPDX-License-Identifier: Apache-2.0 */
/* Reads YAML text into trees and writes trees as YAML. Aliases share nodes, except scalars, which
 * are copied so that each knows its own location. These are mistakes: an alias inside its own
 * anchor, duplicate keys, keys that are no scalars, merge keys, tags outside YAML's core, several
 * documents, more than 64 levels, 100,000 nodes (aliases expanded) or 16 MiB. Thread safe on
 * different documents and collections of mistakes. */
#pragma once

#include "runtime/base/config/node.h"
#include "runtime/base/input/input.h"

/* Reads a file, which hd_input_open opens, or text[bytes] called `name`, in UTF-8, into a new
 * document, which hd_document_destroy releases. Returns HD_OK, HD_ERR_INPUT with the mistakes,
 * several where possible, in diag, or HD_ERR_NOMEM (logged). */
int hd_document_read(const char *path, enum hd_input from, struct hd_diag *diag,
                     struct hd_document **document_p);
int hd_document_parse(const char *name, const char *text, int64_t bytes, struct hd_diag *diag,
                      struct hd_document **document_p);

/* Parses a value that stands inside a line, such as a command line option, into nodes that
 * `document` owns: their locations are `origin` moved on by the characters before them, and
 * origin.file must outlive them. An empty text is an empty scalar. Returns as hd_document_parse,
 * with the same errors. */
int hd_node_parse(struct hd_document *document, struct hd_source_location origin, const char *text,
                  struct hd_diag *diag, struct hd_node **node_p);

/* Writes a tree as YAML that reads back to an equal tree: in block style, with leaves (maps and
 * lists of scalars only) in flow style; keys in order; quotes kept. Returns HD_OK, or HD_ERR_SYSTEM
 * (not logged) when writing fails. */
int hd_node_dump(const struct hd_node *node, FILE *file);
