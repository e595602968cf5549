/* SPDX-License-Identifier: Apache-2.0 */
/* runner simulate: what a cluster would do. */
#include "runner/base/commands.h"
#include "runner/simulate/facts.h"
#include "runner/simulate/simulate_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <stdlib.h>
#include <string.h>

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

static int simulate_strategy(struct hd_simulate_request *request, bool last, json_t *results)
{
    const int max = request->options->nodes;
    double one_node = 0;
    for (int nodes = 1;; nodes = 2 * nodes < max ? 2 * nodes : max) {
        json_t *result = NULL;
        request->last = last && nodes == max;
        const int code = hd_simulate_apart(request, nodes, &result);
        if (code != 0)
            return code;
        one_node = nodes == 1 ? get(result, "env_steps_per_s") : one_node;
        complete(results, result, one_node);
        if (nodes == max)
            return 0;
    }
}

static int simulate_all(struct hd_simulate_request *request, json_t *results)
{
    const char *list =
        request->options->strategies ? request->options->strategies : HD_ALL_STRATEGIES;
    char *names = hd_strdup(list), *rest = names;
    int code = names ? 0 : hd_status_get_exit_code(HD_ERR_NOMEM);
    printf("%-12s %6s %6s %7s %10s %12s %10s %11s  %s\n", "strategy", "nodes", "ranks", "shards",
           "updates/s", "env steps/s", "efficiency", "exposed ms", "critical path");
    fflush(stdout); /* a simulation is a process of its own, which would print it again */
    while (code == 0 && rest) {
        request->strategy = strsep(&rest, ",");
        code = simulate_strategy(request, !rest, results);
    }
    hd_free(names);
    return code;
}

/* GPUs are simulated roughly, so whoever simulates them is told how. */
static void print_notes(const struct hd_simulate_request *request)
{
    for (const char *const *notes = hd_simulate_get_notes(request); *notes; notes++)
        printf("%s\n", *notes);
}

static int write_json(const struct hd_options *options, const json_t *results)
{
    char *text = json_dumps(results, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    const int status = text ? hd_file_write_atomic(options->json, text, (int64_t)strlen(text))
                            : hd_fail(HD_ERR_NOMEM, "%s: no memory", options->json);
    free(text);
    return status;
}

static int write_results(const struct hd_simulate_request *request, json_t *results)
{
    if (json_array_size(results) == 0)
        return HD_OK;
    if (request->options->json)
        HD_TRY(write_json(request->options, results));
    return request->options->page ? hd_simulate_write_page(request, results) : HD_OK;
}

int hd_command_simulate(struct hd_options *options)
{
    struct hd_simulate_request request;
    json_t *results = json_array();
    hd_options_refuse_plugins(options);
    int code = hd_status_get_exit_code(hd_simulate_read_request(options, &request));
    if (code == 0) {
        code = simulate_all(&request, results);
        if (options->gpus > 0)
            print_notes(&request);
        const int written = hd_status_get_exit_code(write_results(&request, results));
        code = code == 0 ? written : code;
    }
    json_decref(request.calibrations);
    json_decref(results);
    return code;
}
