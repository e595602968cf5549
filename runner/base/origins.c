/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/origins.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/types/base/policy_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- Finding ----------------------------------------------------------------------------------- */

static int add(json_t *origins, const char *name, const char *identity)
{
    const int failed = json_object_set_new(origins, name, json_string(identity));
    return failed ? HD_ERR_NOMEM : HD_OK;
}

static int add_values(json_t *origins, const struct hd_graph *graph)
{
    char identity[HD_IDENTITY_TEXT];
    for (int i = 0; i < graph->n_values; i++) {
        const struct hd_spec *spec = &graph->values[i].spec;
        if (!spec->type->identify)
            continue;
        HD_TRY(spec->type->identify(spec, identity));
        if (identity[0])
            HD_TRY(add(origins, spec->name, identity));
    }
    return HD_OK;
}

static int add_file(json_t *origins, const char *key, const char *path)
{
    struct stat info;
    uint64_t hash;
    char identity[HD_IDENTITY_TEXT];
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return HD_OK;
    if (!hd_hash_file(path, &hash))
        return hd_fail(HD_ERR_INPUT, "%s: %s cannot be read: %s", key, path, strerror(errno));
    snprintf(identity, sizeof identity, "file %016" PRIx64 " of %lld bytes", hash,
             (long long)info.st_size);
    return add(origins, key, identity);
}

/* Adds the files that options name. Which Python there is, the environment says itself. */
static int add_files(json_t *origins, const char *key, const struct hd_node *node)
{
    if (node->kind == HD_NODE_SCALAR)
        return add_file(origins, key, node->text);
    for (int64_t i = 0; i < node->count; i++) {
        const bool map = node->kind == HD_NODE_MAP;
        if (map && strcmp(node->keys[i]->text, "python") == 0)
            continue;
        char *below =
            map ? hd_format("%s.%s", key, node->keys[i]->text) : hd_format("%s.%" PRId64, key, i);
        const int status = below ? add_files(origins, below, node->items[i]) : HD_ERR_NOMEM;
        hd_free(below);
        HD_TRY(status);
    }
    return HD_OK;
}

int hd_origins_find(const struct hd_run_spec *run_spec, json_t **origins_p)
{
    const struct hd_node *options = hd_config_get_node(run_spec->config, "env.options");
    json_t *origins = json_object();
    int status = origins ? add_values(origins, run_spec->graph) : HD_ERR_NOMEM;
    if (status == HD_OK && options)
        status = add_files(origins, "env.options", options);
    if (status == HD_OK)
        *origins_p = origins;
    else
        json_decref(origins);
    return status;
}

/* -- Comparing --------------------------------------------------------------------------------- */

static const char *get_identity(const json_t *origins, const char *name)
{
    const char *identity = json_string_value(json_object_get(origins, name));
    return identity ? identity : "absent";
}

static void append(char *text, size_t bytes, const char *name, const char *ours, const char *here,
                   const char *theirs, const char *there)
{
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s is %.*s %s, but %.*s %s", used > 0 ? "; " : "", name,
             HD_IDENTITY_TEXT, ours, here, HD_IDENTITY_TEXT, theirs, there);
    for (char *c = text + used; *c; c++) /* it came by the network or from a file */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
}

bool hd_origins_describe_difference(const json_t *ours, const char *here, const json_t *theirs,
                                    const char *there, char *text, size_t bytes)
{
    const char *name;
    json_t *unused;
    text[0] = '\0';
    json_object_foreach((json_t *)ours, name, unused) {
        const char *a = get_identity(ours, name), *b = get_identity(theirs, name);
        if (strcmp(a, b) != 0)
            append(text, bytes, name, a, here, b, there);
    }
    json_object_foreach((json_t *)theirs, name, unused) {
        if (!json_object_get(ours, name))
            append(text, bytes, name, "absent", here, get_identity(theirs, name), there);
    }
    return text[0] != '\0';
}

/* Returns the evaluator's environments of a graph, or NULL. */
static const struct hd_spec *find_evaluator(const struct hd_graph *graph)
{
    for (int i = 0; i < graph->n_values; i++) {
        const struct hd_spec *spec = &graph->values[i].spec;
        if (spec->role && strcmp(spec->role, "evaluator") == 0 && spec->type->identify)
            return spec;
    }
    return NULL;
}

void hd_origins_compare_weights(const struct hd_run_spec *run_spec, const char *weights)
{
    const struct hd_spec *envs = find_evaluator(run_spec->graph);
    char *text = NULL, here[HD_IDENTITY_TEXT];
    if (!envs || hd_policy_file_read_origins(weights, &text) != HD_OK || !text)
        return;
    json_t *origins = json_loads(text, 0, NULL);
    const char *there = json_string_value(json_object_get(origins, envs->name));
    if (there && envs->type->identify(envs, here) == HD_OK && strcmp(there, here) != 0)
        hd_log(HD_LOG_WARN, "%s were evaluated in %.*s, which is %s here", weights,
               HD_IDENTITY_TEXT, there, here[0] ? here : "built in");
    json_decref(origins);
    hd_free(text);
}
