/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `runner simulate`: the results, and what they were computed from. */
#include "runner/report/page.h"
#include "runner/simulate/simulate_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

static void add(json_t *pairs, const char *name, const char *text)
{
    json_array_append_new(pairs, json_pack("[s, s]", name, text));
}

static void add_number(json_t *pairs, const char *name, double value)
{
    json_array_append_new(pairs, json_pack("[s, f]", name, value));
}

static const char *get_network(const struct hd_options *options)
{
    return options->platform  ? options->platform
           : options->network ? options->network
                              : HD_NETWORK_DEFAULT;
}

static json_t *list_options(const struct hd_simulate_request *request)
{
    const struct hd_options *options = request->options;
    json_t *pairs = json_array();
    add(pairs, "Config", options->config);
    for (int i = 0; i < options->n_sets; i++)
        add(pairs, i == 0 ? "Overrides" : "", options->sets[i].text);
    add_number(pairs, "Nodes, at most", options->nodes);
    add_number(pairs, "Ranks on each", options->ranks_per_node);
    if (options->shards_per_rank > 0)
        add_number(pairs, "Shards of each rank", options->shards_per_rank);
    add(pairs, options->platform ? "Platform" : "Network", get_network(options));
    add_number(pairs, "Task times are multiplied by", request->scale);
    if (options->gpus > 0) {
        add_number(pairs, "GPUs of each rank", options->gpus);
        add_number(pairs, "How much faster than a worker", request->gpu_speedup);
        add(pairs, "Host to GPU", options->gpu_link ? options->gpu_link : HD_GPU_LINK_DEFAULT);
    }
    add_number(pairs, "Iterations", options->iterations);
    return pairs;
}

static json_t *list_calibration(const struct hd_simulate_request *request)
{
    const json_t *file = request->calibrations;
    json_t *pairs = json_array();
    add(pairs, "Config", json_string_value(json_object_get(file, "config")));
    add(pairs, "Heddle", json_string_value(json_object_get(file, "heddle")));
    add(pairs, "From", json_string_value(json_object_get(file, "from")));
    return pairs;
}

/* Keeps of each strategy what is no list, and how long its list of tasks is. */
static json_t *summarize_calibrations(const struct hd_simulate_request *request)
{
    json_t *summaries = json_object(), *calibration;
    const char *name;
    json_object_foreach(json_object_get(request->calibrations, "strategies"), name, calibration) {
        json_t *summary = json_copy(calibration);
        json_object_set_new(
            summary, "tasks",
            json_integer((json_int_t)json_array_size(json_object_get(calibration, "tasks"))));
        json_object_set_new(summaries, name, summary);
    }
    return summaries;
}

static json_t *list_notes(const struct hd_simulate_request *request)
{
    json_t *list = json_array();
    for (const char *const *notes = hd_simulate_get_notes(request); *notes; notes++)
        json_array_append_new(list, json_string(*notes));
    return list;
}

int hd_simulate_write_page(const struct hd_simulate_request *request, json_t *results)
{
    const char *config = strrchr(request->options->config, '/');
    config = config ? config + 1 : request->options->config;
    HD_TRY(hd_page_write(request->options->page,
                         json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:O}", "kind",
                                   "simulation", "version", HD_VERSION, "name", config, "network",
                                   get_network(request->options), "options", list_options(request),
                                   "calibration", list_calibration(request), "calibrations",
                                   summarize_calibrations(request), "notes", list_notes(request),
                                   "results", results)));
    hd_log(HD_LOG_INFO, "%s", request->options->page);
    return HD_OK;
}
