/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 shows and leaves: the run directory, the progress line, results and summary. */
#include "graph/runner/inference.h"
#include "graph/runner/report/report.h"
#include "graph/runner/train/train.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/trace.h"
#include "runtime/io/files.h"
#include "runtime/io/logbook.h"
#include "runtime/io/result.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* -- The run directory --------------------------------------------------------------------------
 */

static int write_config(const struct hd_train *train)
{
    char *text = hd_run_spec_format(&train->run_spec),
         *path = hd_format("%s/total_config.yaml", train->dir);
    int status =
        text && path ? hd_file_write_atomic(path, text, (int64_t)strlen(text)) : HD_ERR_NOMEM;
    free(text);
    hd_free(path);
    return status;
}

/* Numbers that a user may take for another kind are told apart once. */
static void announce(const struct hd_train *train)
{
    const struct hd_config *config = train->run_spec.config;
    int64_t batch = hd_config_get_int(config, "policy.learn.batch_size");
    hd_log(HD_LOG_INFO,
           "%s: %d %s, %" PRId64 " %s; a global batch is %" PRId64 " x %" PRId64
           "; effective config in %s/total_config.yaml",
           hd_config_get_text(config, "exp_name"), train->world.world,
           train->world.world == 1 ? "rank" : "ranks", train->run_spec.shards,
           train->run_spec.shards == 1 ? "shard" : "shards", train->run_spec.shards, batch,
           train->dir);
}

int hd_train_open_outputs(struct hd_train *train)
{
    const char *wanted = train->options->dir;
    const json_t *log = NULL;
    if (!train->dir)
        HD_TRY(hd_rundir_create(wanted ? wanted
                                       : hd_config_get_text(train->run_spec.config, "exp_name"),
                                wanted != NULL, &train->dir));
    else if (train->resume_from)
        log = json_object_get(
            json_object_get(hd_checkpoint_get_metadata(train->resume_from), "run"), "log");
    HD_TRY(hd_rundir_lock(train->dir, &train->dir_lock));
    HD_TRY(write_config(train));
    HD_TRY(hd_logbook_create(train->dir, log, &train->logbook));
    announce(train);
    return HD_OK;
}

/* -- Progress -----------------------------------------------------------------------------------
 */

enum { TERMINAL_MS = 100, LOG_FILE_MS = 5000 };

/* The share of the way to the nearest limit, 0 to 1. */
static double share_done(const struct hd_train *train, int64_t updates, int64_t env_steps)
{
    double by_steps =
        (double)env_steps / (double)hd_config_get_int(train->run_spec.config, "max_env_step");
    double by_updates =
        (double)updates / (double)hd_config_get_int(train->run_spec.config, "max_train_iter");
    return by_steps > by_updates ? by_steps : by_updates;
}

static void format_progress(const struct hd_train *train, int64_t now_ns, char *line, size_t bytes)
{
    struct hd_progress progress = hd_logbook_get_progress(train->logbook);
    int64_t updates = hd_executor_get_counter(train->executor, "update");
    double seconds = (double)(now_ns - train->train_ns) * 1e-9;
    double share = share_done(train, updates, progress.env_step);
    int used = snprintf(line, bytes, "update %" PRId64 "  ", updates);
    if (progress.env_step > 0)
        used += snprintf(line + used, bytes - (size_t)used, "env step %" PRId64 "  ",
                         progress.env_step);
    used +=
        snprintf(line + used, bytes - (size_t)used, "%.0f updates/s", (double)updates / seconds);
    if (!isnan(progress.eval_mean))
        used += snprintf(line + used, bytes - (size_t)used, "  return %.1f (best %.1f)",
                         progress.eval_mean, progress.best);
    if (share > 0.001)
        snprintf(line + used, bytes - (size_t)used, "  at most %.0f s left",
                 seconds * (1 - share) / share);
}

void hd_train_show_progress(void *arg)
{
    struct hd_train *train = arg;
    bool terminal = isatty(STDERR_FILENO);
    int64_t now_ns = hd_clock_get_ns();
    int64_t wait_ns = (terminal ? TERMINAL_MS : LOG_FILE_MS) * INT64_C(1000000);
    if (train->options->quiet || now_ns - train->shown_ns < wait_ns)
        return;
    bool first = train->shown_ns == 0;
    train->shown_ns = now_ns;
    if (first)
        return;
    char line[256];
    format_progress(train, now_ns, line, sizeof line);
    if (terminal)
        hd_log_show_progress(line);
    else
        hd_log(HD_LOG_INFO, "%s", line);
}

/* -- Results ------------------------------------------------------------------------------------
 */

static double field_of(const struct hd_train *train, const char *value, const char *field)
{
    const struct hd_graph *graph = train->run_spec.graph;
    int index = hd_graph_find_value(graph, value);
    if (index == HD_NO_VALUE || hd_executor_get_data(train->executor, index, 0) == NULL)
        return NAN;
    const struct hd_spec *spec = &graph->values[index].spec;
    int at = hd_value_find_field(spec, field);
    if (at < 0 || (spec->type->none && hd_executor_get_version(train->executor, index) == 0))
        return NAN;
    return spec->type->field(spec, hd_executor_get_data(train->executor, index, 0), at);
}

/* Of all shards so far; 0 where nothing is collected. */
static double env_steps_of(const struct hd_train *train)
{
    double env_steps = field_of(train, "totals", "env_step");
    return isnan(env_steps) ? 0 : env_steps;
}

static int save_weights(const struct hd_train *train, int64_t updates, uint64_t *hash_p)
{
    const struct hd_graph *graph = train->run_spec.graph;
    if (hd_graph_find_value(graph, "policy") == HD_NO_VALUE)
        return HD_OK;
    const struct hd_weights weights = hd_weights_find(graph, train->executor);
    *hash_p = hd_value_hash(weights.params, weights.data);
    char *path = hd_format("%s/ckpt/iteration_%" PRId64 "/policy.safetensors", train->dir, updates);
    if (!path)
        return HD_ERR_NOMEM;
    int status = hd_weights_save(&weights, path, updates);
    hd_free(path);
    return status;
}

static int write_result(const struct hd_train *train, const char *reason, int64_t updates,
                        uint64_t hash, double wall_s)
{
    char finish_time[64];
    time_t now = time(NULL);
    ctime_r(&now, finish_time);
    finish_time[strcspn(finish_time, "\n")] = '\0';
    double mean = field_of(train, "evaluation", "mean");
    struct hd_result result = {
        .stop = strcmp(reason, "solved") == 0,
        .env_step = (int64_t)env_steps_of(train),
        .train_iter = updates,
        .eval_value = mean,
        .finish_time = finish_time,
        .reason = reason,
        .param_hash = hash,
        .fingerprint = train->fingerprint.hash,
        .wall_s = wall_s,
        .ranks = train->world.world,
        .shards = train->run_spec.shards,
    };
    if (!isnan(mean)) {
        int evaluation = hd_graph_find_value(train->run_spec.graph, "evaluation");
        result.eval_value_raw = hd_eval_result_get_returns(
            hd_executor_get_data(train->executor, evaluation, 0), &result.n_eval_value_raw);
    }
    char *path = hd_format("%s/result.json", train->dir);
    if (!path)
        return HD_ERR_NOMEM;
    int status = hd_result_write(path, &result);
    hd_free(path);
    return status;
}

static int write_trace(const struct hd_train *train)
{
    if (!train->options->trace)
        return HD_OK;
    char *path = hd_format("%s/trace.json", train->dir);
    if (!path)
        return HD_ERR_NOMEM;
    int status = hd_trace_write(hd_session_get_trace(train->session), path, train->world.rank,
                                train->train_ns);
    hd_free(path);
    return status;
}

static int write_rates(const struct hd_train *train, uint64_t param_hash)
{
    struct hd_rates rates = {
        .workers = hd_session_count_workers(train->session),
        .gpus = hd_session_count_devices(train->session),
        .ranks = train->world.world,
        .shards = train->run_spec.shards,
        .param_hash = param_hash,
        .fingerprint = train->fingerprint.hash,
    };
    if (train->watch.after < 0)
        return HD_OK;
    HD_TRY(hd_stopwatch_read(&train->watch, env_steps_of(train),
                             hd_executor_get_counter(train->executor, "iteration"), &rates));
    char *path = hd_format("%s/rates.json", train->dir);
    if (!path)
        return HD_ERR_NOMEM;
    int status = hd_rates_write(path, &rates);
    hd_free(path);
    return status;
}

static void print_summary(const struct hd_train *train, const char *reason, int64_t updates,
                          uint64_t hash, double train_s)
{
    int64_t busy_ns, tasks;
    const struct hd_trace *trace = hd_session_get_trace(train->session);
    hd_trace_get_totals(trace, &busy_ns, &tasks);
    const double env_steps = env_steps_of(train);
    double return_mean = field_of(train, "evaluation", "mean");
    int workers = hd_session_count_workers(train->session);
    const int gpus = hd_session_count_devices(train->session);
    char collected[64] = "", rate[64] = "", gpu[64] = "";
    if (gpus > 0)
        snprintf(gpu, sizeof gpu, " %d %s %.0f %%,", gpus, gpus == 1 ? "GPU" : "GPUs",
                 100.0 * (double)hd_trace_get_gpu_busy_ns(trace) * 1e-9 / (train_s * gpus));
    if (env_steps > 0) {
        snprintf(collected, sizeof collected, " %.0f env steps,", env_steps);
        snprintf(rate, sizeof rate, ", %.0f env steps/s", env_steps / train_s);
    }
    hd_log(HD_LOG_INFO, "%s after %" PRId64 " updates,%s return %.1f, in %.2f s: %.0f updates/s%s",
           reason, updates, collected, return_mean, train_s, (double)updates / train_s, rate);
    hd_log(HD_LOG_INFO,
           "%d %s of rank 0 busy %.0f %%,%s communication exposed %.0f %%, %" PRId64
           " tasks, first task after %.0f ms; param_hash %016" PRIx64 "; results in %s",
           workers, workers == 1 ? "worker" : "workers",
           100.0 * (double)busy_ns * 1e-9 / (train_s * workers), gpu,
           100.0 * (double)hd_trace_get_exposed_ns(trace) * 1e-9 / train_s, tasks,
           (double)(hd_trace_get_first_ns(trace) - train->begin_ns) * 1e-6, hash, train->dir);
}

int hd_train_write_results(struct hd_train *train, const char *reason)
{
    int64_t now_ns = hd_clock_get_ns();
    int64_t updates = hd_executor_get_counter(train->executor, "update");
    uint64_t hash = 0;
    HD_TRY(save_weights(train, updates, &hash));
    HD_TRY(write_trace(train));
    HD_TRY(write_rates(train, hash));
    HD_TRY(write_result(train, reason, updates, hash, (double)(now_ns - train->begin_ns) * 1e-9));
    print_summary(train, reason, updates, hash, (double)(now_ns - train->train_ns) * 1e-9);
    if (train->watch.after < 0) /* a run without its report is a run all the same */
        hd_report_write(train->dir, NULL, NULL);
    return HD_OK;
}
