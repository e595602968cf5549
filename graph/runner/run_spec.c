/* SPDX-License-Identifier: Apache-2.0 */
/* From a run file to a checked graph: the config, the graph file and the strategy it names. */
#include "graph/language/load.h"
#include "graph/runner/app.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/session.h"
#include "tasks/builtin.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_DOCUMENT, STRATEGY_DOCUMENT, OVERRIDE_DOCUMENT };

static const struct hd_key run_keys[] = {
    {"exp_name", HD_KEY_TEXT, 0, 0, "default_experiment", NULL, "global",
     "name of the run directory"},
    {"seed", HD_KEY_INT, 0, 9007199254740992.0, "0", NULL, "global", "of everything random"},
    {"graph", HD_KEY_TREE, 0, 0, NULL, NULL, "global",
     "graph file beside the config, or the graph"},
    {"strategy", HD_KEY_TREE, 0, 0, "{}", NULL, "global",
     "strategy file beside the config, or the numbers themselves"},
    {"world.shards", HD_KEY_INT, 1, 4096, "auto", "auto", "global",
     "independent samplers of the run; auto: the number of ranks"},
    {"max_env_step", HD_KEY_INT, 1, 1e15, "1e10", NULL, "global",
     "environment steps at which the run stops"},
    {"max_train_iter", HD_KEY_INT, 1, 1e15, "1e10", NULL, "global",
     "updates at which the run stops"},
    {"runtime.executor", HD_KEY_CHOICE, 0, 0, "starpu", "starpu|sequential", "per rank",
     "sequential: one task after another, without StarPU"},
    {"runtime.workers", HD_KEY_INT, 1, 64, "auto", "auto", "per rank",
     "CPU workers; auto: the cores of the rank"},
    {"runtime.gpus", HD_KEY_INT, 1, HD_DEVICES_MAX, "auto", "auto", "per rank",
     "GPUs; auto: a rank's share of the machine's, but no more than it has shards"},
    {"runtime.cuda_devices", HD_KEY_INT_LIST, -1, 63, "-1", NULL, "per node",
     "CUDA's numbers of the GPUs of all ranks of a node, those of local rank 0 first; -1: by "
     "locality"},
    {"runtime.scheduler", HD_KEY_CHOICE, 0, 0, "lws",
     "eager|prio|lws|ws|random|dm|dmda|dmdar|dmdas|modular-eager|modular-prio|modular-ws|"
     "modular-heft",
     "per rank", "StarPU's scheduling policy"},
    {"runtime.max_inflight_iterations", HD_KEY_INT, 1, 64, "2", NULL, "per rank",
     "iterations submitted before the oldest has ended"},
    {"runtime.param_check_interval", HD_KEY_INT, 0, 1e12, "100", NULL, "global",
     "updates between comparisons of the ranks' parameters; 0: only at the end"},
    {"runtime.watchdog_s", HD_KEY_REAL, 0, 1e9, "300", NULL, "global",
     "seconds without any progress after which the run fails; 0: never"},
    {"runtime.heartbeat_timeout_s", HD_KEY_REAL, 0, 1e9, "4", NULL, "global",
     "seconds after which a rank that says nothing counts as lost; 0: never"},
    {"runtime.checkpoint_interval_s", HD_KEY_REAL, 0, 1e9, "60", NULL, "global",
     "seconds from one checkpoint to the next; 0: none but when SIGTERM asks to stop"},
    {"runtime.checkpoint_keep", HD_KEY_INT, 1, 1000, "2", NULL, "global",
     "checkpoints that are kept, the newest"},
    {"runtime.sigterm_grace_s", HD_KEY_INT, 1, 86400, "20", NULL, "global",
     "seconds that SIGTERM leaves for a checkpoint"},
    {"runtime.reduction", HD_KEY_CHOICE, 0, 0, "deterministic", "deterministic|nccl", "global",
     "how ranks' gradients are added: in the fixed tree, or, between GPUs, in NCCL's own order"},
    {"runtime.transport", HD_KEY_CHOICE, 0, 0, "auto", "auto|shm|mpi|tcp", "global",
     "how ranks exchange what is not between GPUs; auto: shared memory on one host, MPI or else "
     "TCP "
     "among several"},
    {"runtime.allow_fingerprint_mismatch", HD_KEY_BOOL, 0, 0, "false", NULL, "global",
     "let ranks of different arithmetic fingerprints work together"},
    {0},
};

static const struct hd_key *const *get_schema(int *n_p)
{
    static const struct hd_key *tables[2];
    tables[0] = run_keys;
    tables[1] = hd_registry_get_builtin()->keys;
    *n_p = 2;
    return tables;
}

void hd_run_spec_print_keys(FILE *file)
{
    int n;
    const struct hd_key *const *tables = get_schema(&n);
    hd_schema_print(tables, n, file);
}

/* A path in a config is relative to the config's folder. */
static char *resolve_path(const char *config, const char *path)
{
    const char *slash = strrchr(config, '/');
    if (path[0] == '/' || !slash)
        return hd_strdup(path);
    return hd_format("%.*s/%s", (int)(slash - config), config, path);
}

/* The file of the same folder that was probably meant, or NULL; freed with hd_free. */
static char *nearest_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? hd_format("%.*s", (int)(slash - path), path) : hd_strdup(".");
    struct dirent **entries;
    int n = folder ? scandir(folder, &entries, NULL, alphasort) : -1;
    hd_free(folder);
    const char **names = n > 0 ? hd_alloc(n, sizeof *names) : NULL;
    for (int i = 0; names && i < n; i++)
        names[i] = entries[i]->d_name;
    const char *nearest = names ? hd_find_nearest_name(name, names, n) : NULL;
    char *found = nearest ? hd_strdup(nearest) : NULL;
    hd_free(names);
    for (int i = 0; i < n; i++)
        free(entries[i]);
    if (n >= 0)
        free(entries);
    return found;
}

static int report_unreadable(struct hd_run_spec *run_spec, const char *key,
                             const struct hd_source_location location, const char *path)
{
    int reason = errno;
    char *nearest = nearest_file(path);
    int status = hd_diag_add_error(run_spec->diag, location, "%s: file %s cannot be read: %s%s%s%s",
                                   key, path, strerror(reason), nearest ? " (did you mean '" : "",
                                   nearest ? nearest : "", nearest ? "'?)" : "");
    hd_free(nearest);
    return status;
}

/* The tree that a key holds: written in place, or in the file it names. */
static int load_tree(struct hd_run_spec *run_spec, const char *config_path, const char *key,
                     int document, const struct hd_node **tree_p)
{
    const struct hd_node *node = hd_config_get_node(run_spec->config, key);
    *tree_p = node;
    if (!node || node->kind != HD_NODE_SCALAR || node->text[0] == '\0')
        return HD_OK;
    char *path = resolve_path(config_path, node->text);
    if (!path)
        return HD_ERR_NOMEM;
    FILE *file = fopen(path, "r");
    int status = HD_OK;
    if (!file)
        status = report_unreadable(run_spec, key, node->location, path);
    else
        fclose(file);
    if (status == HD_OK)
        status = hd_document_read(path, run_spec->diag, &run_spec->documents[document]);
    if (status == HD_OK)
        *tree_p = hd_document_get_root(run_spec->documents[document]);
    hd_free(path);
    return status;
}

/* The --set strategy.x=v options as a map. */
static int collect_overrides(struct hd_run_spec *run_spec, struct hd_node **map_p)
{
    const struct hd_source_location location = {"--set", 1, 1};
    HD_TRY(hd_document_create(&run_spec->documents[OVERRIDE_DOCUMENT]));
    struct hd_document *document = run_spec->documents[OVERRIDE_DOCUMENT];
    struct hd_node *map = hd_node_create_map(document, location);
    if (!map)
        return HD_ERR_NOMEM;
    const struct hd_node *name, *value;
    for (int64_t i = 0; (name = hd_config_get_inner_set(run_spec->config, "strategy", i, &value));
         i++) {
        struct hd_node *copy = hd_node_copy(document, value);
        if (!copy)
            return HD_ERR_NOMEM;
        HD_TRY(hd_node_put(document, map, name->text, copy));
    }
    *map_p = map;
    return HD_OK;
}

static int load_graph(struct hd_run_spec *run_spec, const char *config_path)
{
    const struct hd_node *graph, *strategies[2];
    struct hd_node *overrides;
    int n = 0;
    HD_TRY(load_tree(run_spec, config_path, "graph", GRAPH_DOCUMENT, &graph));
    HD_TRY(load_tree(run_spec, config_path, "strategy", STRATEGY_DOCUMENT, &strategies[0]));
    n += strategies[0] != NULL;
    HD_TRY(collect_overrides(run_spec, &overrides));
    strategies[n++] = overrides;
    const struct hd_graph_source source = {
        .registry = hd_registry_get_builtin(),
        .config = run_spec->config,
        .graph = graph,
        .strategies = strategies,
        .n_strategies = n,
        .shards = run_spec->shards,
        .seed = (uint64_t)hd_config_get_int(run_spec->config, "seed"),
    };
    HD_TRY(hd_graph_load(&source, run_spec->diag, &run_spec->graph));
    return hd_config_override_tree(run_spec->config, "graph", graph);
}

/* The strategy as it came out, so that the effective config needs no other file. */
static int override_strategy(struct hd_run_spec *run_spec)
{
    struct hd_document *document = run_spec->documents[OVERRIDE_DOCUMENT];
    const struct hd_source_location location = {"strategy", 1, 1};
    struct hd_node *map = hd_node_create_map(document, location);
    for (int i = 0; map && i < run_spec->graph->n_parameters; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.17g", run_spec->graph->parameters[i].value);
        struct hd_node *value = hd_node_create_scalar(document, location, text);
        if (!value)
            return HD_ERR_NOMEM;
        HD_TRY(hd_node_put(document, map, run_spec->graph->parameters[i].name, value));
    }
    return map ? hd_config_override_tree(run_spec->config, "strategy", map) : HD_ERR_NOMEM;
}

static int choose_shards(struct hd_run_spec *run_spec, int ranks)
{
    char text[32];
    run_spec->shards_are_ranks = hd_config_get_word(run_spec->config, "world.shards") != NULL;
    run_spec->shards =
        run_spec->shards_are_ranks ? ranks : hd_config_get_int(run_spec->config, "world.shards");
    snprintf(text, sizeof text, "%lld", (long long)run_spec->shards);
    return hd_config_override(run_spec->config, "world.shards", text);
}

static int load(const struct hd_options *options, int ranks, struct hd_run_spec *run_spec)
{
    int n;
    const struct hd_key *const *tables = get_schema(&n);
    struct hd_document *document;
    HD_TRY(hd_diag_create(&run_spec->diag));
    HD_TRY(hd_document_read(options->config, run_spec->diag, &document));
    int status = hd_config_create(tables, n, document, options->sets, options->n_sets,
                                  run_spec->diag, &run_spec->config);
    if (status != HD_OK) {
        hd_document_destroy(document);
        return status;
    }
    run_spec->param_check_interval =
        hd_config_get_int(run_spec->config, "runtime.param_check_interval");
    HD_TRY(choose_shards(run_spec, ranks));
    HD_TRY(load_graph(run_spec, options->config));
    HD_TRY(override_strategy(run_spec));
    if (ranks > 1 && !hd_config_get_bool(run_spec->config, "policy.multi_gpu"))
        return hd_fail(HD_ERR_INPUT,
                       "policy.multi_gpu is false, but there are %d ranks: training "
                       "with several ranks is data-parallel",
                       ranks);
    return hd_plan_allows(run_spec->shards, ranks);
}

int hd_run_spec_load(const struct hd_options *options, int ranks, struct hd_run_spec *run_spec_p)
{
    *run_spec_p = (struct hd_run_spec){0};
    int status = load(options, ranks, run_spec_p);
    if (status != HD_OK) {
        if (run_spec_p->diag)
            hd_diag_report(run_spec_p->diag);
        hd_run_spec_release(run_spec_p);
    }
    return status;
}

void hd_run_spec_release(struct hd_run_spec *run_spec)
{
    hd_graph_destroy(run_spec->graph);
    hd_config_destroy(run_spec->config);
    for (int i = 0; i < (int)(sizeof run_spec->documents / sizeof *run_spec->documents); i++)
        hd_document_destroy(run_spec->documents[i]);
    hd_diag_destroy(run_spec->diag);
    *run_spec = (struct hd_run_spec){0};
}

uint64_t hd_run_spec_hash(const struct hd_run_spec *run_spec)
{
    static const char *const free_to_differ[] = {"exp_name", "runtime.workers",
                                                 "runtime.scheduler"};
    return hd_config_hash(run_spec->config, free_to_differ,
                          sizeof free_to_differ / sizeof *free_to_differ);
}
