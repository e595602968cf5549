/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `runner simulate`. */
#include "runner/simulate/facts.h"
#include "runner/simulate/simulate_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "runtime/io/base/json_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static int read_factor(const char *name, const char *text, double *factor_p)
{
    char *end = NULL;
    *factor_p = text ? strtod(text, &end) : 1;
    if (end && (*end || !(*factor_p > 0 && *factor_p < 1e6)))
        return hd_fail(HD_ERR_INPUT, "%s: expected a positive number, found '%s'", name, text);
    return HD_OK;
}

static int read_gpus(const struct hd_options *options, struct hd_simulate_request *request)
{
    int runtime, driver;
    const char *rest, *link = options->gpu_link ? options->gpu_link : HD_GPU_LINK_DEFAULT;
    HD_TRY(read_factor("--gpu-speedup", options->gpu_speedup, &request->gpu_speedup));
    if (!read_quantity(link, '\0', rates, &request->gpu_bytes_per_s, &rest))
        return hd_fail(HD_ERR_INPUT, "--gpu-link %s: expected a rate such as 200Gbit", link);
    if ((options->gpus > 0) != (options->gpu_speedup != NULL))
        return hd_fail(HD_ERR_INPUT, "--gpus and --gpu-speedup go together: no calibration tells "
                                     "how fast a GPU is");
    if (options->gpus > 0 && !hd_device_get_versions(&runtime, &driver))
        return hd_fail(HD_ERR_UNSUPPORTED, "this program was built without CUDA, so it does not "
                                           "know which steps run on GPUs");
    return HD_OK;
}

static int read_options(struct hd_options *options, struct hd_simulate_request *request)
{
    char why[HD_INPUT_WHY];
    HD_TRY(read_factor("--scale", options->scale, &request->scale));
    HD_TRY(read_gpus(options, request));
    if (options->network && options->platform)
        return hd_fail(HD_ERR_INPUT, "--network and --platform exclude each other");
    if ((int64_t)options->nodes * options->ranks_per_node > HD_WORLD_MAX)
        return hd_fail(HD_ERR_INPUT, "%d nodes with %d ranks each are more than %d ranks",
                       options->nodes, options->ranks_per_node, HD_WORLD_MAX);
    if (options->trace_out && options->rank >= options->nodes * options->ranks_per_node)
        return hd_fail(HD_ERR_INPUT, "--trace-rank %d: ranks are 0 to %d", options->rank,
                       options->nodes * options->ranks_per_node - 1);
    if (options->platform && !hd_input_check(options->platform, HD_INPUT_NAMED, why))
        return hd_fail(HD_ERR_INPUT, "--platform %s %s", options->platform, why);
    request->network = (struct hd_network_options){.platform = options->platform, .model = "CM02"};
    return read_network(options->network ? options->network : HD_NETWORK_DEFAULT,
                        &request->network);
}

static int read_calibrations(const struct hd_options *options, json_t **json_p)
{
    const char *path = options->calibration ? options->calibration : "calibration.json";
    char why[HD_FILE_WHY];
    *json_p = hd_json_file_read(path, HD_INPUT_NAMED, why);
    if (!*json_p && errno != 0)
        return hd_fail(HD_ERR_INPUT,
                       "there is no calibration: %s; write one with 'runner calibrate %s --out %s'",
                       why, options->config, path);
    if (json_integer_value(json_object_get(*json_p, "format")) == HD_CALIBRATION_FORMAT)
        return HD_OK;
    json_decref(*json_p);
    *json_p = NULL;
    return hd_fail(HD_ERR_FORMAT, "%s is no calibration of this version of runner calibrate", path);
}

int hd_simulate_read_request(struct hd_options *options, struct hd_simulate_request *request_p)
{
    *request_p = (struct hd_simulate_request){.options = options};
    HD_TRY(read_options(options, request_p));
    return read_calibrations(options, &request_p->calibrations);
}

#define SIMULATED                                                                                  \
    "Simulated: the tasks that each rank submits, their dependences and priorities, its workers, " \
    "sync points, and messages that share the links of the network."
#define NOT_SIMULATED                                                                              \
    "Not simulated: that ranks of a node share memory bandwidth, caches and cores, the time of a " \
    "processor that sockets take for each byte, lost packets, and checkpoints."

const char *const *hd_simulate_get_notes(const struct hd_simulate_request *request)
{
    static const char *const host[] = {SIMULATED, NOT_SIMULATED, NULL};
    static const char *const gpus[] = {
        SIMULATED, NOT_SIMULATED,
        "GPUs: the plan and the tasks are those of a run with GPUs. A step takes what it takes a "
        "worker in the calibration, divided by --gpu-speedup and cut in equal tasks; copies "
        "between host and GPU take their bytes at the rate of --gpu-link, while nothing else runs "
        "on the GPU. What GPUs send to those of other nodes, slice by slice or in NCCL's ring, "
        "shares the links of the nodes.",
        "Not simulated of GPUs: paths between GPUs of a node, which take no time, NCCL's own "
        "choice of algorithms, and CUDA graphs: every task costs its start.",
        NULL};
    return request->options->gpus > 0 ? gpus : host;
}
