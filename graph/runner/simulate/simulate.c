/* SPDX-License-Identifier: Apache-2.0 */
/* runner simulate: what a cluster would do. Each simulation is a process of its own, because
 * SimGrid simulates once in a process. */
#include "graph/runner/commands.h"
#include "graph/runner/simulate/facts.h"
#include "graph/simulate/cluster.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/io/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
    struct hd_options *options;
    const json_t *calibrations; /* the file */
    struct hd_network_options network;
    double scale;
    const char *strategy;
    bool last; /* its trace is wanted, if any is */
};

/* -- Options ----------------------------------------------------------------------------------- */

struct unit {
    const char *name;
    double factor;
};

static const struct unit rates[] = {
    {"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"kbit", 1e3 / 8}, {NULL, 0}};
static const struct unit times[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {NULL, 0}};

/* Reads a positive number with a unit, which ends at `end`. */
static bool read_quantity(const char *text, char end, const struct unit *units, double *value_p,
                          const char **rest_p)
{
    char *after;
    const double number = strtod(text, &after);
    for (; units->name; units++) {
        const size_t length = strlen(units->name);
        if (after != text && strncmp(after, units->name, length) == 0 && after[length] == end &&
            number > 0 && number < 1e9) {
            *value_p = number * units->factor;
            *rest_p = after + length + (end != '\0');
            return true;
        }
    }
    return false;
}

static int read_network(const char *text, struct hd_network_options *network)
{
    const char *rest;
    if (read_quantity(text, ',', rates, &network->bytes_per_s, &rest) &&
        read_quantity(rest, '\0', times, &network->latency_s, &rest))
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "--network %s: expected RATE,LATENCY such as 100Gbit,2us (Gbit, Mbit, kbit; s, "
                   "ms, us, ns)",
                   text);
}

static int read_options(struct hd_options *options, struct request *request)
{
    char *end = NULL;
    request->scale = options->scale ? strtod(options->scale, &end) : 1;
    if (end && (*end || !(request->scale > 0 && request->scale < 1e6)))
        return hd_fail(HD_ERR_INPUT, "--scale: expected a positive number, found '%s'",
                       options->scale);
    if (options->network && options->platform)
        return hd_fail(HD_ERR_INPUT, "--network and --platform exclude each other");
    if ((int64_t)options->nodes * options->ranks_per_node > HD_WORLD_MAX)
        return hd_fail(HD_ERR_INPUT, "%d nodes with %d ranks each are more than %d ranks",
                       options->nodes, options->ranks_per_node, HD_WORLD_MAX);
    if (options->trace_out && options->rank >= options->nodes * options->ranks_per_node)
        return hd_fail(HD_ERR_INPUT, "--trace-rank %d: ranks are 0 to %d", options->rank,
                       options->nodes * options->ranks_per_node - 1);
    if (options->platform && access(options->platform, R_OK) != 0)
        return hd_fail(HD_ERR_INPUT, "--platform %s cannot be read: %m", options->platform);
    request->network = (struct hd_network_options){.platform = options->platform, .model = "CM02"};
    return read_network(options->network ? options->network : "10Gbit,20us", &request->network);
}

static int read_calibrations(const struct hd_options *options, json_t **json_p)
{
    const char *path = options->calibration ? options->calibration : "calibration.json";
    json_error_t error;
    if (access(path, R_OK) != 0)
        return hd_fail(HD_ERR_INPUT,
                       "there is no calibration %s: write one with 'runner calibrate %s --out %s'",
                       path, options->config, path);
    *json_p = json_load_file(path, 0, &error);
    if (json_integer_value(json_object_get(*json_p, "format")) == HD_CALIBRATION_FORMAT)
        return HD_OK;
    json_decref(*json_p);
    *json_p = NULL;
    return hd_fail(HD_ERR_FORMAT, "%s is no calibration of this version of runner calibrate", path);
}

/* Sizes that differ mean other times. */
static int check_facts(const struct request *request, const struct hd_run_spec *run_spec)
{
    const json_t *before = json_object_get(request->calibrations, "facts");
    json_t *now = hd_facts_list(run_spec);
    int status = now ? HD_OK : HD_ERR_NOMEM;
    for (size_t i = 0; i < json_array_size(now) && status == HD_OK; i++) {
        const json_t *fact = json_array_get(now, i);
        if (!json_equal(fact, json_array_get(before, i)))
            status =
                hd_fail(HD_ERR_INPUT, "the calibration is of another config: it differs at '%.*s'",
                        (int)strcspn(json_string_value(fact), "\t"), json_string_value(fact));
    }
    json_decref(now);
    return status;
}

/* -- One simulation ---------------------------------------------------------------------------- */

struct recorded {
    struct hd_submission **submissions; /* [ranks]: equal ones are one */
    struct hd_peers **exchanges;        /* [ranks] */
};

static int record_ranks(const struct hd_run_spec *run_spec, const struct hd_cluster *cluster,
                        int iterations, const struct recorded *recorded)
{
    for (int rank = 0; rank < cluster->ranks; rank++) {
        struct hd_submission *submission;
        HD_TRY(hd_run_spec_record(run_spec, rank, cluster->ranks, &cluster->hosts, iterations,
                                  &submission, &recorded->exchanges[rank]));
        int same = 0;
        while (same < rank && recorded->submissions[same]->hash != submission->hash)
            same++;
        if (same < rank)
            hd_submission_release(submission);
        recorded->submissions[rank] = same < rank ? recorded->submissions[same] : submission;
    }
    return HD_OK;
}

/* The first mark from which on the run is in its stride: every iteration makes updates, and as many
 * iterations are under way as may be. */
static int find_first_mark(const struct hd_submission *submission, int window)
{
    int mark = 0;
    while (submission->marks[mark].updates == 0)
        mark++;
    return mark + window < submission->n_marks - 1 ? mark + window : mark;
}

static json_t *describe(const struct request *request, const struct hd_run_spec *run_spec,
                        const struct hd_cluster *cluster, const struct hd_cluster_result *result)
{
    const double updates = (double)result->updates, rate = updates / result->seconds;
    json_t *path = json_array();
    for (int i = 0; i < result->n_path; i++)
        json_array_append_new(path, json_pack("{s:s, s:b, s:f}", "name", result->path[i].name,
                                              "message", result->path[i].message, "share",
                                              result->path[i].seconds / result->seconds));
    return json_pack(
        "{s:s, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:o}", "strategy", request->strategy,
        "nodes", cluster->ranks / request->options->ranks_per_node, "ranks", cluster->ranks,
        "shards", (json_int_t)run_spec->shards, "updates_per_s", rate, "env_steps_per_s",
        rate * cluster->calibration->env_steps_per_update * (double)run_spec->shards,
        "exposed_s_per_update", result->exposed_s / updates, "busy",
        result->busy_s / result->seconds / cluster->workers, "sent_bytes_per_update",
        result->sent_bytes /
            (double)cluster->submissions[0]->marks[cluster->submissions[0]->n_marks - 1].updates,
        "path", path);
}

static int open_trace(const struct request *request, struct hd_cluster *cluster)
{
    cluster->traced = -1;
    if (!request->last || !request->options->trace_out)
        return HD_OK;
    cluster->traced = request->options->rank;
    cluster->trace = fopen(request->options->trace_out, "w");
    return cluster->trace
               ? HD_OK
               : hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", request->options->trace_out);
}

static int play(const struct request *request, const struct hd_run_spec *run_spec,
                struct hd_cluster *cluster, json_t **json_p)
{
    struct hd_cluster_result result;
    HD_TRY(open_trace(request, cluster));
    int status = hd_cluster_simulate(cluster, &result);
    if (cluster->trace && fclose(cluster->trace) != 0)
        status = hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", request->options->trace_out);
    HD_TRY(status);
    *json_p = describe(request, run_spec, cluster, &result);
    return *json_p ? HD_OK : HD_ERR_NOMEM;
}

static int open_network(const struct request *request, int nodes, struct hd_cluster *cluster)
{
    char why[512] = "";
    struct hd_network_options network = request->network;
    const struct hd_simgrid_plugin *plugin =
        hd_plugin_load("heddle_simgrid.so", "hd_simgrid_plugin", HD_SIMGRID_ABI, false, "SimGrid",
                       "libsimgrid-dev", why, sizeof why);
    network.nodes = nodes;
    if (plugin)
        cluster->network = plugin->open(&network, why, sizeof why);
    return cluster->network ? HD_OK : hd_fail(HD_ERR_UNSUPPORTED, "%s", why);
}

static int simulate_loaded(const struct request *request, const struct hd_run_spec *run_spec,
                           struct hd_cluster *cluster, json_t **json_p)
{
    const int ranks = cluster->ranks,
              window = (int)hd_config_get_int(run_spec->config, "runtime.max_inflight_iterations");
    const struct recorded recorded = {hd_alloc(ranks, sizeof(void *)),
                                      hd_alloc(ranks, sizeof(void *))};
    if (!recorded.submissions || !recorded.exchanges)
        return HD_ERR_NOMEM;
    HD_TRY(hd_plan_allows(run_spec->shards, ranks));
    HD_TRY(check_facts(request, run_spec));
    HD_TRY(open_network(request, cluster->hosts.n, cluster));
    HD_TRY(record_ranks(run_spec, cluster, request->options->iterations, &recorded));
    cluster->submissions = (const struct hd_submission *const *)recorded.submissions;
    cluster->exchanges = (const struct hd_peers *const *)recorded.exchanges;
    cluster->first_mark = find_first_mark(recorded.submissions[0], window);
    return play(request, run_spec, cluster, json_p);
}

/* Runs in a process of its own, whose end releases what it has. */
static int simulate(const struct request *request, int nodes, json_t **json_p)
{
    enum { MESSAGE_NS = 5000 }; /* as hd_message_choose estimates */
    const int per_node = request->options->ranks_per_node, ranks = nodes * per_node;
    const char *path =
        request->options->calibration ? request->options->calibration : "calibration.json";
    const json_t *strategies = json_object_get(request->calibrations, "strategies");
    struct hd_calibration calibration;
    struct hd_run_spec run_spec;
    if (!json_object_get(strategies, request->strategy))
        return hd_fail(HD_ERR_INPUT, "%s has no strategy %s: calibrate it, too", path,
                       request->strategy);
    HD_TRY(hd_calibration_read(json_object_get(strategies, request->strategy), path, &calibration));
    HD_TRY(hd_options_use_strategy(request->options, request->strategy));
    HD_TRY(hd_run_spec_load(request->options, ranks, &run_spec));
    const bool counted = !hd_config_get_word(run_spec.config, "runtime.workers");
    struct hd_cluster cluster = {
        .ranks = ranks,
        .workers = counted ? (int)hd_config_get_int(run_spec.config, "runtime.workers") : 1,
        .hosts = nodes == 1 ? (struct hd_comm_hosts){1, ranks} : hd_comm_fit_hosts(ranks, per_node),
        .calibration = &calibration,
        .scale = request->scale,
        .message_s = MESSAGE_NS * 1e-9};
    if (cluster.hosts.n != nodes)
        return hd_fail(HD_ERR_INPUT,
                       "%d ranks on each of %d nodes: the ranks of a node are no node of the tree "
                       "(docs/determinism.md); powers of two are",
                       per_node, nodes);
    return simulate_loaded(request, &run_spec, &cluster, json_p);
}

static void run_child(const struct request *request, int nodes, int pipe_end)
{
    json_t *json = NULL;
    const int status = simulate(request, nodes, &json);
    FILE *file = fdopen(pipe_end, "w");
    if (status == HD_OK && file)
        json_dumpf(json, file, 0);
    if (file)
        fclose(file);
    _exit(hd_status_get_exit_code(status));
}

/* Stores the result of a simulation. Returns an exit code. */
static int fork_simulation(const struct request *request, int nodes, json_t **json_p)
{
    int ends[2], state;
    if (pipe(ends) != 0)
        return hd_status_get_exit_code(hd_fail(HD_ERR_SYSTEM, "no pipe: %m"));
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(request, nodes, ends[1]);
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    *json_p = file ? json_loadf(file, 0, NULL) : NULL;
    if (file)
        fclose(file);
    if (child < 0 || waitpid(child, &state, 0) != child)
        return hd_status_get_exit_code(hd_fail(HD_ERR_SYSTEM, "no process: %m"));
    if (WIFEXITED(state) && (WEXITSTATUS(state) != 0 || *json_p))
        return WEXITSTATUS(state);
    return hd_status_get_exit_code(
        hd_fail(HD_ERR_SYSTEM, "SimGrid ended the simulation of %d nodes", nodes));
}

/* -- All simulations --------------------------------------------------------------------------- */

static double get(const json_t *result, const char *key)
{
    return json_number_value(json_object_get(result, key));
}

static void print(const json_t *result)
{
    const json_t *path = json_object_get(result, "path");
    printf("%-12s %6.0f %6.0f %7.0f %10.4g %12.5g %8.1f %% %11.4g",
           json_string_value(json_object_get(result, "strategy")), get(result, "nodes"),
           get(result, "ranks"), get(result, "shards"), get(result, "updates_per_s"),
           get(result, "env_steps_per_s"), get(result, "efficiency") * 100,
           get(result, "exposed_s_per_update") * 1e3);
    for (size_t i = 0; i < json_array_size(path) && i < 3; i++) {
        const json_t *share = json_array_get(path, i);
        printf("%s%s%s %.0f %%", i == 0 ? "  " : ", ",
               json_is_true(json_object_get(share, "message")) ? "exchange of " : "",
               json_string_value(json_object_get(share, "name")), get(share, "share") * 100);
    }
    printf("\n");
    fflush(stdout);
}

/* Adds the efficiency of a result: its rate per node, relative to that of one node. */
static void complete(json_t *results, json_t *result, double one_node)
{
    json_object_set_new(
        result, "efficiency",
        json_real(get(result, "env_steps_per_s") / get(result, "nodes") / one_node));
    json_array_append_new(results, result);
    print(result);
}

static int simulate_strategy(struct request *request, bool last, json_t *results)
{
    const int max = request->options->nodes;
    double one_node = 0;
    for (int nodes = 1;; nodes = 2 * nodes < max ? 2 * nodes : max) {
        json_t *result = NULL;
        request->last = last && nodes == max;
        const int code = fork_simulation(request, nodes, &result);
        if (code != 0)
            return code;
        one_node = nodes == 1 ? get(result, "env_steps_per_s") : one_node;
        complete(results, result, one_node);
        if (nodes == max)
            return 0;
    }
}

static int simulate_all(struct request *request, json_t *results)
{
    const char *list =
        request->options->strategies ? request->options->strategies : HD_ALL_STRATEGIES;
    char *names = hd_strdup(list), *rest = names;
    int code = names ? 0 : hd_status_get_exit_code(HD_ERR_NOMEM);
    printf("%-12s %6s %6s %7s %10s %12s %10s %11s  %s\n", "strategy", "nodes", "ranks", "shards",
           "updates/s", "env steps/s", "efficiency", "exposed ms", "critical path");
    while (code == 0 && rest) {
        request->strategy = strsep(&rest, ",");
        code = simulate_strategy(request, !rest, results);
    }
    hd_free(names);
    return code;
}

static int write_results(const struct hd_options *options, const json_t *results)
{
    if (!options->json)
        return HD_OK;
    char *text = json_dumps(results, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    const int status = text ? hd_file_write_atomic(options->json, text, (int64_t)strlen(text))
                            : hd_fail(HD_ERR_NOMEM, "%s: no memory", options->json);
    free(text);
    return status;
}

int hd_command_simulate(struct hd_options *options)
{
    struct request request = {.options = options};
    json_t *calibrations = NULL, *results = json_array();
    int status = read_options(options, &request);
    if (status == HD_OK)
        status = read_calibrations(options, &calibrations);
    request.calibrations = calibrations;
    int code = hd_status_get_exit_code(status);
    if (code == 0)
        code = simulate_all(&request, results);
    if (code == 0)
        code = hd_status_get_exit_code(write_results(options, results));
    json_decref(calibrations);
    json_decref(results);
    return code;
}
