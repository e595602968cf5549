/* SPDX-License-Identifier: Apache-2.0 */
/* One simulation of `runner simulate`. */
#include "runner/simulate/facts.h"
#include "runner/simulate/model/cluster.h"
#include "runner/simulate/simulate_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void show(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void show(const char *format, ...)
{
    char line[256];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    hd_log_show_progress(line);
}

struct simulating {
    const char *strategy;
    int nodes;
};

static void show_iteration(void *arg, int iteration, int iterations, double seconds)
{
    const struct simulating *simulating = arg;
    show("%s on %d nodes: iteration %d of %d, at %.3g s of simulated time", simulating->strategy,
         simulating->nodes, iteration, iterations, seconds);
}

struct recorded {
    struct hd_submission **submissions; /* [ranks]: equal ones are one */
    struct hd_peers **exchanges;        /* [ranks] */
};

static int record_ranks(const struct hd_run_spec *run_spec, const struct hd_cluster *cluster,
                        int iterations, const struct recorded *recorded)
{
    enum { SHOW_EVERY = 32 };
    for (int rank = 0; rank < cluster->ranks; rank++) {
        struct hd_submission *submission;
        if (cluster->progress && rank % SHOW_EVERY == 0)
            show("%s on %d nodes: what rank %d of %d submits",
                 ((const struct simulating *)cluster->progress_arg)->strategy, cluster->hosts.n,
                 rank, cluster->ranks);
        HD_TRY(hd_run_spec_record(run_spec, rank, cluster->ranks, &cluster->hosts, cluster->gpus,
                                  iterations, &submission, &recorded->exchanges[rank]));
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

static json_t *describe(const struct hd_simulate_request *request,
                        const struct hd_run_spec *run_spec, const struct hd_cluster *cluster,
                        const struct hd_cluster_result *result)
{
    const double updates = (double)result->updates, rate = updates / result->seconds;
    double path_s = 0;
    for (int i = 0; i < result->n_path; i++)
        path_s += result->path[i].seconds;
    json_t *path = json_array();
    for (int i = 0; i < result->n_path; i++)
        json_array_append_new(path, json_pack("{s:s, s:b, s:f}", "name", result->path[i].name,
                                              "message", result->path[i].message, "share",
                                              result->path[i].seconds / path_s));
    json_t *json = json_pack(
        "{s:s, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:o}", "strategy", request->strategy,
        "nodes", cluster->ranks / request->options->ranks_per_node, "ranks", cluster->ranks,
        "shards", (json_int_t)run_spec->shards, "updates_per_s", rate, "env_steps_per_s",
        rate * cluster->calibration->env_steps_per_update * (double)run_spec->shards,
        "exposed_s_per_update", result->exposed_s / updates, "busy",
        result->busy_s / result->seconds / cluster->workers, "sent_bytes_per_update",
        result->sent_bytes /
            (double)cluster->submissions[0]->marks[cluster->submissions[0]->n_marks - 1].updates,
        "path", path);
    if (cluster->gpus > 0)
        json_object_set_new(json, "gpu_busy",
                            json_real(result->gpu_busy_s / result->seconds / cluster->gpus));
    return json;
}

static int open_trace(const struct hd_simulate_request *request, struct hd_cluster *cluster)
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

static int play(const struct hd_simulate_request *request, const struct hd_run_spec *run_spec,
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

static int open_network(const struct hd_simulate_request *request, int nodes,
                        struct hd_cluster *cluster)
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

static int simulate_loaded(const struct hd_simulate_request *request,
                           const struct hd_run_spec *run_spec, struct hd_cluster *cluster,
                           json_t **json_p)
{
    const int ranks = cluster->ranks, window = run_spec->settings.window;
    const struct recorded recorded = {hd_alloc(ranks, sizeof(void *)),
                                      hd_alloc(ranks, sizeof(void *))};
    if (!recorded.submissions || !recorded.exchanges)
        return HD_ERR_NOMEM;
    HD_TRY(hd_plan_allows(run_spec->shards, ranks));
    if (cluster->gpus > run_spec->shards / ranks)
        return hd_fail(HD_ERR_INPUT, "--gpus %d: a rank has %d shards, and no use for more GPUs",
                       cluster->gpus, (int)(run_spec->shards / ranks));
    HD_TRY(hd_facts_compare(json_object_get(request->calibrations, "facts"), run_spec,
                            "the calibration is of another config"));
    HD_TRY(open_network(request, cluster->hosts.n, cluster));
    HD_TRY(record_ranks(run_spec, cluster, request->options->iterations, &recorded));
    cluster->submissions = (const struct hd_submission *const *)recorded.submissions;
    cluster->exchanges = (const struct hd_peers *const *)recorded.exchanges;
    cluster->first_mark = find_first_mark(recorded.submissions[0], window);
    return play(request, run_spec, cluster, json_p);
}

/* Weak scaling gives every rank so many. */
static int set_shards(struct hd_options *options, int ranks)
{
    if (options->shards_per_rank == 0)
        return HD_OK;
    return hd_options_add_set(
        options, hd_format("world.shards=%" PRId64, (int64_t)options->shards_per_rank * ranks),
        "--shards-per-rank");
}

int hd_simulate_once(const struct hd_simulate_request *request, int nodes, json_t **json_p)
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
    HD_TRY(set_shards(request->options, ranks));
    HD_TRY(hd_run_spec_load(request->options, ranks, &run_spec));
    struct simulating simulating = {request->strategy, nodes};
    struct hd_cluster cluster = {
        .ranks = ranks,
        .workers = run_spec.settings.workers > 0 ? run_spec.settings.workers : 1,
        .hosts = nodes == 1 ? (struct hd_comm_hosts){1, ranks} : hd_comm_fit_hosts(ranks, per_node),
        .calibration = &calibration,
        .scale = request->scale,
        .gpus = request->options->gpus,
        .gpu_speedup = request->gpu_speedup,
        .gpu_bytes_per_s = request->gpu_bytes_per_s,
        .message_s = MESSAGE_NS * 1e-9,
        .byte_s = request->options->rdma || request->options->gpus > 0
                      ? 0
                      : 1 / calibration.socket_bytes_per_s,
        .progress = request->options->quiet ? NULL : show_iteration,
        .progress_arg = &simulating};
    if (cluster.hosts.n != nodes)
        return hd_fail(HD_ERR_INPUT,
                       "%d ranks on each of %d nodes: the ranks of a node are no node of the tree "
                       "(docs/determinism.md); powers of two are",
                       per_node, nodes);
    return simulate_loaded(request, &run_spec, &cluster, json_p);
}
