/* SPDX-License-Identifier: Apache-2.0 */
/* Called when a run has ended, and before it starts to reserve the names. */
#include "runner/train/outputs/results.h"

#include "runner/base/process.h"
#include "runner/history/curves.h"
#include "runner/play/inference.h"
#include "runner/train/outputs/fields.h"
#include "runner/train/outputs/last_evaluation.h"
#include "runner/train/outputs/traces.h"
#include "runner/train/outputs/videos.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/trace.h"
#include "runtime/io/base/files.h"
#include "runtime/io/checkpoint/checkpoint.h"
#include "runtime/io/logbook.h"
#include "runtime/io/reserve.h"
#include "runtime/io/result.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* -- Room for the results ---------------------------------------------------------------------- */

enum { WEIGHTS_NAME = 64 };

static const char weights_name[] = "weights", result_name[] = "result";

static int put_weights(void *dir, const char *path, const void *data, int64_t bytes)
{
    return hd_reserve_write(dir, weights_name, path, data, bytes);
}

int hd_results_put(void *dir, const char *path, const void *data, int64_t bytes)
{
    return hd_reserve_write(dir, result_name, path, data, bytes);
}

static int64_t bytes_of(const struct hd_graph *graph, const char *value)
{
    const int index = hd_graph_find_value(graph, value);
    return index == HD_NO_VALUE ? 0 : graph->values[index].spec.bytes;
}

void hd_results_reserve(const struct hd_train *train)
{
    enum { HEADER = 256 << 10 }; /* of a file: names, shapes, hashes, returns */
    const struct hd_graph *graph = train->run_spec.graph;
    const int policy = hd_graph_find_value(graph, "policy");
    const int64_t floats = policy == HD_NO_VALUE ? 0 : graph->values[policy].spec.elements;
    hd_reserve_make(train->dir, weights_name,
                    floats * (int64_t)sizeof(float) + bytes_of(graph, "obs_norm") +
                        bytes_of(graph, "batch_norm_stats") + HEADER);
    hd_reserve_make(train->dir, result_name, HEADER);
}

/* -- Results ----------------------------------------------------------------------------------- */

static int save_weights(const struct hd_train *train, int64_t updates, uint64_t *hash_p)
{
    const struct hd_graph *graph = train->run_spec.graph;
    if (hd_graph_find_value(graph, "policy") == HD_NO_VALUE)
        return HD_OK;
    struct hd_weights weights = hd_weights_find(graph, train->executor);
    weights.about = hd_logbook_get_policy(train->outputs.logbook);
    weights.origins = hd_logbook_get_origins(train->outputs.logbook);
    *hash_p = hd_value_hash(weights.params, weights.data);
    char *path = hd_format("%s/ckpt/iteration_%" PRId64 "/policy.safetensors", train->dir, updates);
    if (!path)
        return HD_ERR_NOMEM;
    const struct hd_file_put put = {put_weights, train->dir};
    int status = hd_weights_save(&weights, &put, path, updates);
    hd_free(path);
    return status;
}

/* Where the run leaves its best weights, relative to its directory. */
static void name_weights(const struct hd_last_evaluation *evaluation, int64_t updates,
                         char path[WEIGHTS_NAME])
{
    if (evaluation->last_is_best)
        snprintf(path, WEIGHTS_NAME, "ckpt/iteration_%" PRId64 "/policy.safetensors", updates);
    else if (!isnan(evaluation->best_mean))
        snprintf(path, WEIGHTS_NAME, "ckpt/best/policy.safetensors");
}

static void fill_evaluations(const struct hd_train *train, int64_t updates,
                             const struct hd_last_evaluation *evaluation, struct hd_result *result)
{
    result->eval_value = evaluation->latest_mean;
    result->eval_train_iter = evaluation->latest_update;
    result->last_value = evaluation->mean;
    result->last_value_raw = evaluation->returns;
    result->n_last_value_raw = evaluation->n;
    result->best_value = evaluation->last_is_best ? evaluation->mean : evaluation->best_mean;
    result->best_train_iter = evaluation->last_is_best ? updates : evaluation->best_update;
    if (isnan(evaluation->latest_mean))
        return;
    const int index = hd_graph_find_value(train->run_spec.graph, "evaluation");
    result->eval_value_raw = hd_eval_result_get_returns(
        hd_executor_get_data(train->executor, index, 0), &result->n_eval_value_raw);
}

static double find_training_return(const struct hd_train *train)
{
    struct hd_curves curves;
    if (hd_curves_read(train->dir, &curves) != HD_OK)
        return NAN;
    const double mean = hd_curves_find_training_return(&curves);
    hd_curves_release(&curves);
    return mean;
}

static int write_result(const struct hd_train *train, const char *reason, int64_t updates,
                        uint64_t hash, double wall_s, const struct hd_last_evaluation *evaluation)
{
    char command[HD_COMMAND_BYTES], weights[WEIGHTS_NAME] = "";
    hd_process_get_command(command);
    name_weights(evaluation, updates, weights);
    struct hd_result result = {
        .stop = strcmp(reason, "solved") == 0,
        .env_step = (int64_t)hd_fields_count_env_steps(train),
        .train_iter = updates,
        .skipped = hd_fields_count_skipped(train),
        .train_value = find_training_return(train),
        .weights = weights[0] ? weights : NULL,
        .reason = reason,
        .detail = hd_executor_get_stop_key(train->executor),
        .param_hash = hash,
        .fingerprint = train->fingerprint.hash,
        .wall_s = wall_s,
        .ranks = train->ranks.world.world,
        .shards = train->run_spec.shards,
        .seed = train->run_spec.settings.seed,
        .env = train->run_spec.settings.env_type,
        .command = command,
    };
    fill_evaluations(train, updates, evaluation, &result);
    char *path = hd_format("%s/result.json", train->dir);
    if (!path)
        return HD_ERR_NOMEM;
    const struct hd_file_put put = {hd_results_put, train->dir};
    int status = hd_result_write(&put, path, &result);
    hd_free(path);
    return status;
}

static int write_rates(const struct hd_train *train, uint64_t param_hash)
{
    struct hd_rates rates = {
        .workers = hd_session_get_options(train->session)->workers,
        .gpus = hd_session_get_options(train->session)->n_devices,
        .ranks = train->ranks.world.world,
        .shards = train->run_spec.shards,
        .param_hash = param_hash,
        .fingerprint = train->fingerprint.hash,
    };
    if (train->timing.watch.after < 0)
        return HD_OK;
    HD_TRY(hd_stopwatch_read(&train->timing.watch, hd_fields_count_env_steps(train),
                             hd_executor_get_counter(train->executor, "iteration"), &rates));
    char *path = hd_format("%s/rates.json", train->dir);
    if (!path)
        return HD_ERR_NOMEM;
    int status = hd_rates_write(path, &rates);
    hd_free(path);
    return status;
}

/* Writes " return 195.0 (best 200.0 of update 960),": of the last weights if they were evaluated,
 * else with the update of the latest evaluation. */
static void describe_returns(const struct hd_last_evaluation *evaluation, int64_t updates,
                             char *text, size_t bytes)
{
    const bool last = evaluation->returns != NULL;
    const int64_t update = last ? updates : evaluation->latest_update;
    char of[32] = "", best[48] = "";
    if (isnan(evaluation->latest_mean) && !last)
        return;
    if (update != updates)
        snprintf(of, sizeof of, " of update %" PRId64, update);
    if (!isnan(evaluation->best_mean) && !evaluation->last_is_best &&
        evaluation->best_update != update)
        snprintf(best, sizeof best, " (best %.1f of update %" PRId64 ")", evaluation->best_mean,
                 evaluation->best_update);
    snprintf(text, bytes, " return %.1f%s%s,", last ? evaluation->mean : evaluation->latest_mean,
             of, best);
}

static void tell_bounds(const struct hd_bounds *bounds)
{
    char line[256];
    hd_bounds_describe(bounds, line, sizeof line);
    hd_log(HD_LOG_INFO, "%s", line);
}

static void print_summary(const struct hd_train *train, const char *reason, int64_t updates,
                          uint64_t hash, double train_s,
                          const struct hd_last_evaluation *evaluation)
{
    const struct hd_trace_totals totals = hd_trace_get_totals(hd_session_get_trace(train->session));
    const double env_steps = hd_fields_count_env_steps(train);
    const double steps = env_steps - train->timing.first_env_step;
    int workers = hd_session_get_options(train->session)->workers;
    const int gpus = hd_session_get_options(train->session)->n_devices;
    const char *limit =
        strcmp(reason, "limit") == 0 ? hd_executor_get_stop_key(train->executor) : NULL;
    const double made = (double)(updates - train->timing.first_update),
                 busiest_s = (double)totals.busiest_ns * 1e-9;
    char bound[80] = "", collected[64] = "", rate[64] = "", gpu[64] = "", first[48] = "",
         by[64] = ",", returns[96] = "", skipped[48] = "";
    if (totals.tasks > 0)
        snprintf(first, sizeof first, ", first task after %.0f ms",
                 (double)(totals.first_ns - train->timing.begin_ns) * 1e-6);
    if (gpus > 0)
        snprintf(gpu, sizeof gpu, " %d %s %.0f %%,", gpus, gpus == 1 ? "GPU" : "GPUs",
                 100.0 * (double)totals.gpu_busy_ns * 1e-9 / (train_s * gpus));
    if (hd_fields_count_skipped(train) > 0)
        snprintf(skipped, sizeof skipped, " %" PRId64 " of them skipped,",
                 hd_fields_count_skipped(train));
    if (made > 0 && busiest_s > 0)
        snprintf(bound, sizeof bound, " (%s work bounds the rate to %.0f updates/s)",
                 workers + gpus == 1 ? "its" : "the busiest one's", made / busiest_s);
    if (limit)
        snprintf(by, sizeof by, ": %s;", limit);
    if (env_steps > 0) {
        snprintf(collected, sizeof collected, " %.0f env steps,", env_steps);
        snprintf(rate, sizeof rate, ", %.0f env steps/s", steps / train_s);
    }
    describe_returns(evaluation, updates, returns, sizeof returns);
    hd_log(HD_LOG_INFO, "%s after %" PRId64 " updates%s%s%s%s in %.2f s: %.0f updates/s%s",
           limit ? "stopped" : reason, updates, by, skipped, collected, returns, train_s,
           made / train_s, rate);
    hd_log(HD_LOG_INFO,
           "%d %s of rank 0 busy %.0f %%%s,%s communication exposed %.0f %%, %" PRId64
           " tasks%s; param_hash %016" PRIx64 "; results in %s",
           workers, workers == 1 ? "worker" : "workers",
           100.0 * (double)totals.busy_ns * 1e-9 / (train_s * workers), bound, gpu,
           100.0 * (double)totals.exposed_ns * 1e-9 / train_s, totals.tasks, first, hash,
           train->dir);
    if (train->trace.bounds.iterations > 0)
        tell_bounds(&train->trace.bounds);
}

/* Writes what was reached, and says it. */
static int write_all(struct hd_train *train, const char *reason, int64_t updates, uint64_t hash,
                     int64_t end_ns, const struct hd_last_evaluation *evaluation)
{
    HD_TRY(write_result(train, reason, updates, hash,
                        (double)(end_ns - train->timing.begin_ns) * 1e-9, evaluation));
    HD_TRY(hd_traces_write(train));
    HD_TRY(write_rates(train, hash));
    print_summary(train, reason, updates, hash, (double)(end_ns - train->timing.train_ns) * 1e-9,
                  evaluation);
    return HD_OK;
}

int hd_results_write(struct hd_train *train, const char *reason)
{
    const int64_t end_ns = hd_clock_get_ns();
    const int64_t updates = hd_executor_get_counter(train->executor, "update");
    struct hd_last_evaluation evaluation;
    uint64_t hash = 0;
    HD_TRY(save_weights(train, updates, &hash));
    HD_TRY(hd_last_evaluation_play(train, reason, updates, &evaluation));
    /* A run that has a result is not resumed to end videos or a checkpoint. */
    hd_videos_finish(train);
    if (train->checkpoints.writer)
        hd_checkpoint_writer_wait(train->checkpoints.writer);
    const int status = write_all(train, reason, updates, hash, end_ns, &evaluation);
    hd_free(evaluation.returns);
    HD_TRY(status);
    if (train->timing.watch.after < 0 && train->options->write_report)
        train->options->write_report(train->dir);
    return HD_OK;
}
