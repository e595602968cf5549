/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/start_weights.h"

#include "runner/base/config_leaves.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/base/warm_start.h"

#include <inttypes.h>
#include <stdio.h>

static int put_text(struct hd_document *document, struct hd_node *map, const char *key,
                    const char *text)
{
    struct hd_node *node = hd_node_create_scalar(document, map->location, text);
    return node ? hd_node_put(document, map, key, node) : HD_ERR_NOMEM;
}

int hd_start_weights_name(struct hd_document *document, const struct hd_node *graph,
                          const char *file, bool skips, struct hd_diag *diag,
                          const struct hd_node **graph_p)
{
    const struct hd_source_location option = {.file = "--weights"};
    struct hd_node *copy = hd_node_copy(document, graph);
    struct hd_node *policy = hd_node_get(hd_node_get(copy, "values"), "policy");
    struct hd_node *init = hd_node_create_map(document, option);
    if (!copy || !init)
        return HD_ERR_NOMEM;
    if (!policy || policy->kind != HD_NODE_MAP)
        return hd_diag_add_error(diag, option, "the graph has no value 'policy'");
    if (hd_node_get(policy, "init"))
        return hd_diag_add_error(diag, hd_node_get(policy, "init")->location,
                                 "'policy' begins with this, not with --weights: give one of them");
    HD_TRY(put_text(document, init, "file", file));
    if (skips)
        HD_TRY(put_text(document, init, "mismatch", "skip"));
    HD_TRY(hd_node_put(document, policy, "init", init));
    *graph_p = copy;
    return HD_OK;
}

/* Finds the hash of the file with which a value begins; its text is for the config. */
static int find_hash(const struct hd_spec *spec, const json_t *then, bool tells,
                     struct hd_diag *diag, char text[17])
{
    uint64_t hash;
    char *path = hd_format("graph.values.%s.init.hash", spec->name);
    const char *stated = path && then ? hd_config_find_leaf(then, path) : NULL;
    snprintf(text, 17, "%s", stated ? stated : "");
    hd_free(path);
    if (!path)
        return HD_ERR_NOMEM;
    if (then)
        return HD_OK;
    HD_TRY(hd_warm_start_inspect(spec, tells, diag, &hash));
    snprintf(text, 17, "%016" PRIx64, hash);
    return HD_OK;
}

static bool has_files(const struct hd_graph *graph)
{
    for (int i = 0; i < graph->n_values; i++)
        if (graph->values[i].spec.start)
            return true;
    return false;
}

int hd_start_weights_read(struct hd_config *config, struct hd_graph *graph,
                          struct hd_document *document, const json_t *then, bool tells,
                          struct hd_diag *diag)
{
    if (!has_files(graph))
        return HD_OK;
    struct hd_node *copy = hd_node_copy(document, hd_config_peek_node(config, "graph"));
    for (int i = 0; copy && i < graph->n_values; i++) {
        struct hd_spec *spec = &graph->values[i].spec;
        struct hd_node *value = hd_node_get(hd_node_get(copy, "values"), spec->name);
        char hash[17];
        if (!spec->start)
            continue;
        HD_TRY(find_hash(spec, then, tells, diag, hash));
        HD_TRY(put_text(document, hd_node_get(value, "init"), "hash", hash));
        spec->start = then ? NULL : hd_node_get(value, "init");
    }
    return copy ? hd_config_override_tree(config, "graph", copy) : HD_ERR_NOMEM;
}
