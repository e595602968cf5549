/* SPDX-License-Identifier: Apache-2.0 */
/* Functions by which the YAML reader builds trees in a document. One thread at a time uses a
 * document.
 */
#pragma once

#include "runtime/base/config/node.h"

#include <stddef.h>

/* These return memory that the document owns, or NULL (logged) without memory: count * size zeroed
 * bytes; a copy of text[length] with a zero behind it; a copy of a file name, the same one as long
 * as the name does not change; an empty node. */
void *hd_document_alloc(struct hd_document *document, int64_t count, size_t size);
char *hd_document_copy_text(struct hd_document *document, const char *text, size_t length);
const char *hd_document_copy_file_name(struct hd_document *document, const char *file);
struct hd_node *hd_node_create(struct hd_document *document, enum hd_node_kind kind,
                               struct hd_source_location location);

/* Makes `root`, a node of the document, its top node. */
void hd_document_set_root(struct hd_document *document, struct hd_node *root);
