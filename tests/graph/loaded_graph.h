/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that a test loads from a text, with all that it refers to. */
#pragma once

#include "graph/language/load.h"
#include "runtime/base/config/yaml.h"
#include "runtime/base/status.h"

struct loaded_graph {
    struct hd_document *document;
    struct hd_config *config;
    struct hd_diag *diag;
    struct hd_graph *graph;
};

/* Loads text[bytes], the file `name`, with the registry and the numbers of a source and an empty
 * configuration. Returns a status; mistakes are in l->diag. loaded_graph_release releases what
 * there is, whatever the status. */
static inline int loaded_graph_load(struct loaded_graph *l, const struct hd_graph_source *of,
                                    const char *name, const char *text, size_t bytes)
{
    struct hd_graph_source source = *of;
    *l = (struct loaded_graph){0};
    HD_TRY(hd_diag_create(&l->diag));
    HD_TRY(hd_config_create(&of->registry->keys, 1, NULL, NULL, 0, l->diag, &l->config));
    HD_TRY(hd_document_parse(name, text, (int64_t)bytes, l->diag, &l->document));
    source.config = l->config;
    source.graph = hd_document_get_root(l->document);
    return hd_graph_load(&source, l->diag, &l->graph);
}

static inline void loaded_graph_release(struct loaded_graph *l)
{
    hd_graph_destroy(l->graph);
    hd_config_destroy(l->config);
    hd_document_destroy(l->document);
    hd_diag_destroy(l->diag);
}
