/* SPDX-License-Identifier: Apache-2.0 */
/* Called by rank 0 at the start and the end of a run, and once an iteration, which leaves a line at
 * intervals. */
#include "runner/train/outputs/metrics.h"

#include "runner/base/machine_json.h"
#include "runner/train/base/train.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/engine/trace.h"
#include "runtime/io/append.h"
#include "runtime/io/logbook.h"
#include "runtime/machine/machine.h"

#include <stdlib.h>
#include <string.h>

struct hd_metrics {
    struct hd_appender *file;
    int64_t next_ns; /* when the next sample is due, after the start of training */
};

/* Writes a line and hands it to the system at once: what is there counts when the process is
 * killed. */
static void write_line(struct hd_metrics *metrics, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json);
    if (text) {
        const size_t length = strlen(text);
        text[length] = '\n'; /* in place of the final zero */
        hd_appender_add(metrics->file, text, (int64_t)length + 1);
        hd_appender_flush(metrics->file);
    }
    free(text);
}

/* -- The start --------------------------------------------------------------------------------- */

static json_t *machine_now(void)
{
    struct hd_topology *topology;
    struct hd_machine machine;
    if (hd_topology_create(NULL, &topology) != HD_OK)
        return json_object();
    hd_machine_read(topology, &machine);
    hd_topology_destroy(topology);
    return hd_machine_build_json(&machine);
}

/* Lists the values that hold memory on this rank: [name, type, placement, instances, copies,
 * bytes]. */
static json_t *values_of(const struct hd_plan *plan)
{
    static const char *const placements[] = {"per shard", "global", "rank 0"};
    json_t *list = json_array();
    for (int i = 0; i < plan->graph->n_values; i++) {
        const struct hd_spec *spec = &plan->graph->values[i].spec;
        const struct hd_plan_value *value = &plan->values[i];
        const int copies = value->buffers + value->lagged.buffers + value->background.buffers;
        if (value->instances == 0 || value->storage == HD_STORE_NOTHING)
            continue;
        json_array_append_new(list, json_pack("[s, s, s, i, i, I]", spec->name, spec->type->name,
                                              placements[spec->placement], value->instances, copies,
                                              (json_int_t)spec->bytes));
    }
    return list;
}

/* The lines of `runner graph` for an iteration. */
static json_t *iteration_of(const struct hd_plan *plan)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory)
        hd_plan_dump_iteration(plan, memory);
    json_t *json = memory && fclose(memory) == 0 ? json_string(text) : NULL;
    free(text);
    return json;
}

static json_t *gpus_of(const struct hd_train *train)
{
    json_t *list = json_array();
    char name[256];
    for (int i = 0; i < train->gpus.plan.n; i++) {
        hd_device_get_name(train->gpus.share.devices[i], name, sizeof name);
        json_array_append_new(list, json_string(name));
    }
    return list;
}

static json_t *start_of(const struct hd_train *train)
{
    const int64_t ago_ns = hd_clock_get_ns() - train->timing.train_ns;
    char fingerprint[24];
    snprintf(fingerprint, sizeof fingerprint, "%016llx",
             (unsigned long long)train->fingerprint.hash);
    return json_pack("{s:{s:f, s:I, s:i, s:I, s:i, s:s, s:f, s:I, s:i, s:I, s:I, s:s, s:s, s:o, "
                     "s:o, s:o, s:o, s:o}}",
                     "start", "time", (double)(hd_clock_get_wall_ns() - ago_ns) * 1e-9, "update",
                     (json_int_t)hd_executor_get_counter(train->executor, "update"), "ranks",
                     train->ranks.world.world, "shards", (json_int_t)train->run_spec.shards,
                     "workers", hd_session_get_options(train->session)->workers, "scheduler",
                     hd_session_get_scheduler(train->session), "setup_s",
                     (double)(train->timing.train_ns - train->timing.begin_ns) * 1e-9,
                     "scratch_bytes", (json_int_t)hd_plan_get_scratch_bytes(train->plan),
                     "channels", train->plan->channels, "exchange_bytes",
                     (json_int_t)hd_plan_get_exchange_bytes(train->plan), "shared_bytes",
                     (json_int_t)train->plan->shared_bytes, "fingerprint", fingerprint,
                     "arithmetic", train->fingerprint.text, "gpus", gpus_of(train), "machine",
                     machine_now(), "versions", hd_versions_build_json(train->gpus.plan.n > 0),
                     "values", values_of(train->plan), "iteration", iteration_of(train->plan));
}

struct hd_metrics *hd_metrics_start(const struct hd_train *train)
{
    struct hd_metrics *metrics = hd_alloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    char *path = hd_format("%s/log/metrics.jsonl", train->dir);
    const int status =
        path ? hd_appender_create(path, HD_APPEND_AFTER_ALL, &metrics->file) : HD_ERR_NOMEM;
    hd_free(path);
    if (status != HD_OK) {
        hd_free(metrics);
        return NULL;
    }
    write_line(metrics, start_of(train));
    return metrics;
}

/* -- Samples ----------------------------------------------------------------------------------- */

static json_t *sample_of(const struct hd_train *train)
{
    const struct hd_trace_totals totals = hd_trace_get_totals(hd_session_get_trace(train->session));
    int64_t resident, peak;
    hd_memory_read(&resident, &peak);
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "s",
                     (double)(hd_clock_get_ns() - train->timing.train_ns) * 1e-9, "update",
                     (json_int_t)hd_executor_get_counter(train->executor, "update"), "iteration",
                     (json_int_t)hd_executor_get_counter(train->executor, "iteration"), "env_step",
                     (json_int_t)hd_logbook_get_progress(train->outputs.logbook).env_step, "tasks",
                     (json_int_t)totals.tasks, "busy_s", (double)totals.busy_ns * 1e-9,
                     "gpu_busy_s", (double)totals.gpu_busy_ns * 1e-9, "waited_s",
                     (double)totals.waited_ns * 1e-9, "exposed_s", (double)totals.exposed_ns * 1e-9,
                     "rss_bytes", (json_int_t)resident, "peak_bytes", (json_int_t)peak,
                     "sent_bytes", (json_int_t)hd_comm_count_sent_bytes(train->ranks.comm));
}

void hd_metrics_sample(struct hd_metrics *metrics, const struct hd_train *train)
{
    enum { PER_RUN = 400, MIN_MS = 250 };
    if (!metrics)
        return;
    const int64_t now_ns = hd_clock_get_ns() - train->timing.train_ns;
    if (now_ns < metrics->next_ns)
        return;
    const int64_t min_ns = MIN_MS * INT64_C(1000000), share_ns = now_ns / PER_RUN;
    metrics->next_ns = now_ns + (share_ns > min_ns ? share_ns : min_ns);
    write_line(metrics, sample_of(train));
}

/* -- The end ----------------------------------------------------------------------------------- */

static json_t *verbs_of(const struct hd_trace *trace)
{
    struct hd_timing timings[HD_TRACE_VERBS + 1];
    json_t *list = json_array();
    hd_trace_read_timings(trace, timings);
    for (const struct hd_timing *timing = timings; timing->verb; timing++)
        json_array_append_new(list, json_pack("[s, I, f]", timing->verb, (json_int_t)timing->count,
                                              (double)timing->busy_ns * 1e-9));
    return list;
}

void hd_metrics_end(struct hd_metrics *metrics, const struct hd_train *train, const char *reason)
{
    if (!metrics)
        return;
    write_line(metrics, sample_of(train));
    write_line(metrics, json_pack("{s:{s:s, s:o}}", "end", "reason", reason, "verbs",
                                  verbs_of(hd_session_get_trace(train->session))));
    hd_appender_destroy(metrics->file);
    hd_free(metrics);
}
