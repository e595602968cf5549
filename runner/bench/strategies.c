/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/bench/strategies.h"

#include "runtime/base/alloc.h"
#include "runtime/base/config/yaml.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Finds a parameter of a strategy that a graph lacks; NULL: none, or the map is no map. */
static const char *find_foreign(const struct hd_node *map, const struct hd_run_spec *run_spec)
{
    for (int64_t i = 0; map && map->kind == HD_NODE_MAP && i < map->count; i++) {
        bool known = false;
        for (int k = 0; k < run_spec->graph->n_parameters && !known; k++)
            known = strcmp(map->keys[i]->text, run_spec->graph->parameters[k].name) == 0;
        if (!known)
            return map->keys[i]->text;
    }
    return NULL;
}

/* Returns whether a graph has all parameters of a strategy's file. One that cannot be read fits, as
 * who loads it tells why. */
static bool fits(const char *folder, const char *name, const struct hd_run_spec *run_spec)
{
    struct hd_document *document = NULL;
    struct hd_diag *diag = NULL;
    char *path = hd_format("%s/%s", folder, name);
    const char *foreign = NULL;
    if (path && hd_diag_create(&diag) == HD_OK &&
        hd_document_read(path, HD_INPUT_NAMED, diag, &document) == HD_OK)
        foreign = find_foreign(hd_document_get_root(document), run_spec);
    if (foreign)
        hd_log(HD_LOG_INFO, "%s is left out: the graph has no strategy parameter %s", path,
               foreign);
    const bool found = foreign == NULL;
    hd_document_destroy(document);
    hd_diag_destroy(diag);
    hd_free(path);
    return found;
}

/* Lists the names of a folder's strategies that fit, serial as the first; NULL: there is none. */
static char *list_strategies_in(const char *folder, const struct hd_run_spec *run_spec)
{
    struct dirent **entries;
    const int n = hd_run_spec_find_files(folder, &entries);
    char *list = NULL;
    for (int k = 0; k < 2 * n; k++) {
        const char *name = entries[k % n]->d_name;
        const bool serial = strcmp(name, "serial.yaml") == 0;
        if (serial != (k < n) || !fits(folder, name, run_spec))
            continue;
        char *longer = hd_format("%s%s%.*s", list ? list : "", list ? "," : "",
                                 (int)strlen(name) - (int)strlen(".yaml"), name);
        hd_free(list);
        list = longer;
    }
    for (int i = 0; i < n; i++)
        free(entries[i]);
    if (n >= 0)
        free(entries);
    return list;
}

char *hd_strategies_list(const char *config, const struct hd_run_spec *run_spec)
{
    char *beside, *installed;
    hd_run_spec_find_folders(config, "strategies", &beside, &installed);
    char *list = beside ? list_strategies_in(beside, run_spec) : NULL;
    if (!list && installed)
        list = list_strategies_in(installed, run_spec);
    if (!list)
        hd_fail(HD_ERR_INPUT, "there are no strategies in %s, nor in %s; --strategies names some",
                beside ? beside : "strategies", installed ? installed : "the program's own");
    hd_free(beside);
    hd_free(installed);
    return list;
}
