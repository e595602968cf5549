/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/run_spec.h"

#include "graph/language/load.h"
#include "runner/base/start_weights.h"
#include "runner/base/video_steps.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/base/run_keys.h"
#include "tasks/output/inspect.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_file.h"
#include "tasks/types/base/spaces.h"
#include "tasks/types/output/schedule.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRAPH_DOCUMENT, STRATEGY_DOCUMENT, OVERRIDE_DOCUMENT };

/* Returns a path of a config, which is relative to the folder of the config; freed with hd_free. */
static char *resolve_path(const char *config, const char *path)
{
    const char *slash = strrchr(config, '/');
    if (path[0] == '/' || !slash)
        return hd_strdup(path);
    return hd_format("%.*s/%s", (int)(slash - config), config, path);
}

static int is_yaml(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".yaml") == 0;
}

int hd_run_spec_find_files(const char *folder, struct dirent ***entries_p)
{
    return scandir(folder, entries_p, is_yaml, alphasort);
}

/* Returns the name of the file in a folder that is nearest to `name`, or NULL; freed with hd_free.
 */
static char *find_nearest_in(const char *folder, const char *name)
{
    struct dirent **entries;
    int n = hd_run_spec_find_files(folder, &entries);
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

/* Returns the name of the file beside a path that is nearest to it, or NULL; freed with hd_free. */
static char *find_nearest_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? hd_format("%.*s", (int)(slash - path), path) : hd_strdup(".");
    char *found = folder ? find_nearest_in(folder, slash ? slash + 1 : path) : NULL;
    hd_free(folder);
    return found;
}

/* Returns the config that was probably meant, of the same folder or of ./configs, or NULL; freed
 * with hd_free. */
static char *find_nearest_config(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *beside = find_nearest_beside(path), *found;
    if (beside) {
        found = hd_format("%.*s%s", (int)(name - path), path, beside);
    } else {
        beside = find_nearest_in("configs", name);
        found = beside ? hd_format("configs/%s", beside) : NULL;
    }
    hd_free(beside);
    return found;
}

/* Tells of a config that cannot be read, for a reason of errno, and which may be meant. */
static int report_unreadable_config(struct hd_run_spec *run_spec, const char *path)
{
    const int reason = errno;
    char *nearest = find_nearest_config(path);
    const int status = hd_diag_add_error(run_spec->diag, (struct hd_source_location){.file = path},
                                         "the config cannot be read: %s%s%s%s", strerror(reason),
                                         nearest ? " (did you mean '" : "", nearest ? nearest : "",
                                         nearest ? "'?)" : "");
    hd_free(nearest);
    return status;
}

/* Tells of a key's file that cannot be read, for a reason of errno: beside the config, or among the
 * program's own files, if `installed` names it there. */
static int report_unreadable_tree(struct hd_run_spec *run_spec, const char *key,
                                  const struct hd_source_location location, const char *beside,
                                  const char *installed)
{
    const int reason = errno;
    char *nearest = find_nearest_beside(beside);
    if (!nearest && installed)
        nearest = find_nearest_beside(installed);
    const int status = hd_diag_add_error(
        run_spec->diag, location, "%s: file %s cannot be read: %s%s%s%s%s%s", key, beside,
        strerror(reason), installed ? "; nor can the program's own, " : "",
        installed ? installed : "", nearest ? " (did you mean '" : "", nearest ? nearest : "",
        nearest ? "'?)" : "");
    hd_free(nearest);
    return status;
}

/* Returns the path of a run file that comes with the program, or of one of their companions, so
 * that a copied run file finds them, also one of configs/presets; NULL (logged) without memory.
 * Freed with hd_free. */
static char *name_installed(const char *path)
{
    char root[PATH_MAX];
    while (strncmp(path, "../", 3) == 0)
        path += 3;
    hd_plugin_find_root(root);
    return hd_format("%s/share/heddle/configs/%s", root, path);
}

/* Returns where a file is read: there, or else among the program's own, if `installed` names one.
 */
static const char *choose_path(const char *there, const char *installed)
{
    return installed && access(there, F_OK) != 0 && access(installed, R_OK) == 0 ? installed
                                                                                 : there;
}

/* A config that is not there is looked for among the program's own: presets/ppo.yaml. */
static int read_config(struct hd_run_spec *run_spec, const char *path,
                       struct hd_document **document_p)
{
    int status;
    const bool relative = path[0] != '/';
    char *installed = relative ? name_installed(path) : NULL;
    if (relative && !installed)
        return HD_ERR_NOMEM;
    const char *found = choose_path(path, installed);
    if (access(found, R_OK) != 0)
        status = report_unreadable_config(run_spec, path);
    else if (hd_policy_file_is_named(found))
        status = hd_policy_file_read(found, run_spec->diag, document_p);
    else
        status = hd_document_read(found, HD_INPUT_COMMAND, run_spec->diag, document_p);
    hd_free(installed);
    return status;
}

/* Refuses the environment of a file of weights, which is data, if it would load code. */
static int refuse_code(const struct hd_run_spec *run_spec, const char *path)
{
    const struct hd_settings *settings = &run_spec->settings;
    if (!hd_policy_file_is_named(path) || !hd_env_is_plugin(run_spec->config))
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "%s is of a policy for env.type %s %s, whose code is not loaded because of a "
                   "file of weights: name the run directory or the run file, and --weights %s",
                   path, settings->env_type, settings->env_id, path);
}

/* Reads the file that a key names, from beside the config or else from the program's own. */
static int read_tree(struct hd_run_spec *run_spec, const char *key, const struct hd_node *node,
                     const char *beside, const char *installed, struct hd_document **document_p)
{
    const char *path = choose_path(beside, installed);
    return access(path, R_OK) == 0
               ? hd_document_read(path, HD_INPUT_NAMED, run_spec->diag, document_p)
               : report_unreadable_tree(run_spec, key, node->location, beside, installed);
}

/* Finds the tree that a key holds: it is written in place, or in the file that the key names. */
static int load_tree(struct hd_run_spec *run_spec, const char *config_path, const char *key,
                     int document, const struct hd_node **tree_p)
{
    const struct hd_node *node = hd_config_get_node(run_spec->config, key);
    *tree_p = node;
    if (!node || node->kind != HD_NODE_SCALAR || node->text[0] == '\0')
        return HD_OK;
    const bool relative = node->text[0] != '/';
    char *beside = resolve_path(config_path, node->text);
    char *installed = relative ? name_installed(node->text) : NULL;
    const int status =
        beside && (installed || !relative)
            ? read_tree(run_spec, key, node, beside, installed, &run_spec->documents[document])
            : HD_ERR_NOMEM;
    if (status == HD_OK)
        *tree_p = hd_document_get_root(run_spec->documents[document]);
    hd_free(beside);
    hd_free(installed);
    return status;
}

/* Collects the --set strategy.x=v options in a map. */
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

/* Adds the steps that record videos, if the config asks for them. */
static int add_videos(struct hd_run_spec *run_spec, const struct hd_node *graph,
                      const struct hd_node **graph_p)
{
    const int64_t every = hd_config_get_int(run_spec->config, "policy.eval.video_every");
    *graph_p = graph;
    if (!graph || every == 0)
        return HD_OK;
    return hd_video_steps_add(run_spec->documents[OVERRIDE_DOCUMENT], graph, every, run_spec->diag,
                              graph_p);
}

void hd_run_spec_find_folders(const char *config, const char *name, char **beside_p,
                              char **installed_p)
{
    *beside_p = resolve_path(config, name);
    *installed_p = name_installed(name);
}

static int load_graph(struct hd_run_spec *run_spec, const struct hd_options *options)
{
    const struct hd_node *graph, *filmed, *strategies[2];
    struct hd_node *overrides;
    int n = 0;
    const char *config_path = options->config;
    HD_TRY(load_tree(run_spec, config_path, "graph", GRAPH_DOCUMENT, &graph));
    HD_TRY(load_tree(run_spec, config_path, "strategy", STRATEGY_DOCUMENT, &strategies[0]));
    n += strategies[0] != NULL;
    HD_TRY(collect_overrides(run_spec, &overrides));
    strategies[n++] = overrides;
    if (options->start_weights && graph)
        HD_TRY(hd_start_weights_name(run_spec->documents[OVERRIDE_DOCUMENT], graph,
                                     options->start_weights, options->skip_mismatch, run_spec->diag,
                                     &graph));
    HD_TRY(add_videos(run_spec, graph, &filmed));
    const struct hd_graph_source source = {
        .registry = hd_registry_get_builtin(),
        .config = run_spec->config,
        .graph = filmed,
        .strategies = strategies,
        .n_strategies = n,
        .shards = run_spec->shards,
        .seed = (uint64_t)run_spec->settings.seed,
    };
    HD_TRY(hd_graph_load(&source, run_spec->diag, &run_spec->graph));
    return hd_config_override_tree(run_spec->config, "graph", graph);
}

/* Puts the resulting strategy into the effective config, so that it needs no other file. */
static int override_strategy(struct hd_run_spec *run_spec)
{
    struct hd_document *document = run_spec->documents[OVERRIDE_DOCUMENT];
    const struct hd_source_location location = {"strategy", 1, 1};
    struct hd_node *map = hd_node_create_map(document, location);
    for (int i = 0; map && i < run_spec->graph->n_parameters; i++) {
        const struct hd_strategy_parameter *parameter = &run_spec->graph->parameters[i];
        char number[32];
        snprintf(number, sizeof number, "%.17g", parameter->value);
        struct hd_node *value =
            hd_node_create_scalar(document, location, parameter->word ? parameter->word : number);
        if (!value)
            return HD_ERR_NOMEM;
        HD_TRY(hd_node_put(document, map, parameter->name, value));
    }
    return map ? hd_config_override_tree(run_spec->config, "strategy", map) : HD_ERR_NOMEM;
}

/* Puts the bounds of real actions, as the environment has them, into the effective config. */
static int override_bounds(struct hd_run_spec *run_spec)
{
    const struct hd_env_actions *actions = NULL;
    char text[HD_ACTIONS_BOUNDS];
    struct hd_document *document;
    for (int i = 0; i < run_spec->graph->n_values && !actions; i++)
        actions = hd_inspect_actions(&run_spec->graph->values[i].spec);
    if (!actions || actions->kind != HD_ENV_BOX)
        return HD_OK;
    hd_actions_write_bounds(actions, text);
    HD_TRY(hd_document_parse("policy.action_bounds", text, (int64_t)strlen(text), run_spec->diag,
                             &document));
    const int status = hd_config_override_tree(run_spec->config, "policy.action_bounds",
                                               hd_document_get_root(document));
    hd_document_destroy(document);
    return status;
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

/* Python is asked for the spaces of Gymnasium's envs, unless they are declared; it also draws them.
 */
static bool needs_python(const struct hd_run_spec *run_spec)
{
    const struct hd_node *options = hd_config_get_node(run_spec->config, "env.options");
    const struct hd_node *render = hd_node_get(options, "render");
    return !hd_node_get(options, "obs_shape") ||
           (render && render->kind == HD_NODE_SCALAR && strcmp(render->text, "false") != 0);
}

/* Refuses an environment that is a plug-in named by its path, or that needs Python, and says which
 * code it would load. */
static int refuse_plugin(const struct hd_run_spec *run_spec)
{
    char code[PATH_MAX];
    const struct hd_node *type = hd_config_get_node(run_spec->config, "env.type");
    if (!type || type->kind != HD_NODE_SCALAR)
        return HD_OK;
    if (strcmp(type->text, "gymnasium") == 0 && needs_python(run_spec))
        return hd_diag_add_error(
            run_spec->diag, type->location,
            "env.type: Python would be started to ask for the spaces of env_id '%.120s'; "
            "--allow-plugin allows that, or env.options declares obs_shape, actions or box, and "
            "max_episode_steps",
            run_spec->settings.env_id);
    if (!strchr(type->text, '/'))
        return HD_OK;
    return hd_diag_add_error(run_spec->diag, type->location,
                             "env.type: the config names a plug-in by its path, and its code (%s) "
                             "would be loaded; --allow-plugin allows that",
                             realpath(type->text, code) ? code : type->text);
}

static int load(const struct hd_options *options, int ranks, struct hd_run_spec *run_spec)
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    struct hd_document *document;
    HD_TRY(hd_diag_create(&run_spec->diag));
    HD_TRY(read_config(run_spec, options->config, &document));
    int status = hd_config_create(tables, n, document, options->sets, options->n_sets,
                                  run_spec->diag, &run_spec->config);
    if (status != HD_OK) {
        hd_document_destroy(document);
        return status;
    }
    hd_settings_read(run_spec->config, &run_spec->settings);
    if (options->refuses_plugins)
        HD_TRY(refuse_plugin(run_spec));
    HD_TRY(refuse_code(run_spec, options->config));
    HD_TRY(hd_env_options_resolve(run_spec->config, run_spec->diag));
    if (options->weights)
        HD_TRY(hd_policy_file_complete(run_spec->config, options->weights, run_spec->diag));
    HD_TRY(hd_spaces_resolve(run_spec->config, true, run_spec->diag));
    HD_TRY(choose_shards(run_spec, ranks));
    HD_TRY(hd_schedule_resolve(run_spec->config, run_spec->diag, &run_spec->schedule_is_limited));
    HD_TRY(load_graph(run_spec, options));
    HD_TRY(override_strategy(run_spec));
    HD_TRY(override_bounds(run_spec));
    if (!run_spec->settings.multi_gpu && ranks > 1)
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

int hd_run_spec_read_weights(struct hd_run_spec *run_spec, const json_t *then, bool tells)
{
    const int status =
        hd_start_weights_read(run_spec->config, run_spec->graph,
                              run_spec->documents[OVERRIDE_DOCUMENT], then, tells, run_spec->diag);
    if (status == HD_ERR_INPUT)
        hd_diag_report(run_spec->diag);
    return status;
}

static void warn(const struct hd_diag *warnings)
{
    const char *line;
    for (int64_t i = 0; (line = hd_diag_get_line(warnings, i)); i++)
        hd_log(HD_LOG_WARN, "%s", line);
}

/* Takes back what was asked for before it was known by what the run computes. */
static void forget_unused(const struct hd_run_spec *run_spec, bool gpus)
{
    const struct hd_config *config = run_spec->config;
    static const char *const of_starpu[] = {"runtime.workers", "runtime.scheduler",
                                            "runtime.performance_models",
                                            "runtime.max_inflight_iterations"};
    static const char *const of_gpus[] = {"runtime.gpus", "runtime.cuda_devices",
                                          "runtime.reduction"};
    for (size_t i = 0; i < sizeof of_starpu / sizeof *of_starpu; i++)
        if (run_spec->settings.sequential)
            hd_config_forget_use(config, of_starpu[i]);
    for (size_t i = 0; i < sizeof of_gpus / sizeof *of_gpus; i++)
        if (!gpus)
            hd_config_forget_use(config, of_gpus[i]);
    if (!gpus && strcmp(run_spec->settings.precision, "tf32") == 0)
        hd_config_forget_use(config, "runtime.precision");
    if (!gpus && !hd_policy_get(config)->on_policy)
        hd_config_forget_use(config, "policy.collect.overlap_act_step");
}

/* The planner, not the graph file, asks for one of them. */
static void report_unused_parameters(const struct hd_graph *graph, const char *user,
                                     struct hd_diag *diag)
{
    for (int i = 0; i < graph->n_parameters; i++) {
        const struct hd_strategy_parameter *parameter = &graph->parameters[i];
        if (parameter->given.line > 0 && !parameter->used &&
            strcmp(parameter->name, "shard_optimizer_above_mb") != 0)
            hd_diag_add_error(diag, parameter->given, "strategy.%s is not used by %s",
                              parameter->name, user);
    }
}

static void warn_of_unused(const struct hd_run_spec *run_spec)
{
    char user[64];
    struct hd_diag *diag;
    if (hd_diag_create(&diag) != HD_OK)
        return;
    snprintf(user, sizeof user, "this run of %s",
             hd_config_get_text(run_spec->config, "policy.type"));
    hd_config_report_unused(run_spec->config, user, diag);
    report_unused_parameters(run_spec->graph, user, diag);
    warn(diag);
    hd_diag_destroy(diag);
}

/* A fragment of fewer than nstep steps has no sample of nstep rewards. */
static void warn_of_short_fragments(const struct hd_run_spec *run_spec)
{
    const struct hd_config *config = run_spec->config;
    const long long nstep = hd_config_get_int(config, "policy.nstep"),
                    samples = hd_config_get_int(config, "policy.collect.n_sample"),
                    envs = hd_config_get_int(config, "env.collector_env_num"),
                    steps = hd_inspect_fragment(config);
    if (nstep <= steps || hd_policy_get(config)->on_policy)
        return;
    hd_log(HD_LOG_WARN,
           "policy.nstep: no sample has %lld rewards: with policy.collect.n_sample %lld, an "
           "environment of %lld plays %lld %s at a time, and a sample has no rewards beyond "
           "these, as in DI-engine; n_sample %lld is enough",
           nstep, samples, envs, steps, steps == 1 ? "step" : "steps", nstep * envs);
}

void hd_run_spec_explain(const struct hd_run_spec *run_spec, bool gpus)
{
    const long long shards = run_spec->shards;
    forget_unused(run_spec, gpus);
    warn_of_unused(run_spec);
    warn(run_spec->graph->warnings);
    warn_of_short_fragments(run_spec);
    if (run_spec->shards_are_ranks)
        hd_log(HD_LOG_INFO,
               "world.shards: auto is %lld here: another number of ranks gives other bits "
               "(--set world.shards=%lld keeps these)",
               shards, shards);
}

/* Ranks of one run may differ in these. */
static const char *const free_to_differ[] = {"exp_name", "policy.collect.data_path",
                                             "runtime.workers", "runtime.scheduler",
                                             "runtime.performance_models"};

enum { N_FREE = sizeof free_to_differ / sizeof *free_to_differ };

enum hd_host_exchange hd_run_spec_get_exchange(const struct hd_run_spec *run_spec)
{
    const char *name = run_spec->settings.exchange;
    return strcmp(name, "halves") == 0   ? HD_EXCHANGE_HALVES
           : strcmp(name, "pairs") == 0  ? HD_EXCHANGE_PAIRS
           : strcmp(name, "direct") == 0 ? HD_EXCHANGE_DIRECT
                                         : HD_EXCHANGE_AUTO;
}

uint64_t hd_run_spec_hash(const struct hd_run_spec *run_spec)
{
    return hd_config_hash(run_spec->config, free_to_differ, N_FREE);
}

/* The graph holds the hashes of files, but a difference in it is not told in detail. */
static void list_weights(const struct hd_graph *graph, FILE *file)
{
    for (int i = 0; i < graph->n_values; i++) {
        const struct hd_node *hash = hd_node_get(graph->values[i].spec.start, "hash");
        if (hash)
            fprintf(file, "the file of weights of '%s'\t%s\t%s\n", graph->values[i].spec.name,
                    hash->text, hash->text);
    }
}

char *hd_run_spec_list(const struct hd_run_spec *run_spec)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory)
        list_weights(run_spec->graph, memory);
    int status =
        memory ? hd_config_list(run_spec->config, free_to_differ, N_FREE, memory) : HD_ERR_NOMEM;
    if (memory && fclose(memory) != 0)
        status = HD_ERR_NOMEM;
    if (status == HD_OK)
        return text;
    free(text);
    return NULL;
}

char *hd_run_spec_format(const struct hd_run_spec *run_spec)
{
    return hd_config_format(run_spec->config, NULL, 0);
}

char *hd_run_spec_describe_policy(const struct hd_run_spec *run_spec)
{
    return hd_policy_file_describe(run_spec->config);
}
