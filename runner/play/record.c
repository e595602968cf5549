/* SPDX-License-Identifier: Apache-2.0 */
/* runner record: plays a config's collector envs with given weights and writes what they did as a
 * data set. An iteration of its graph is one round, and one file. */
#include "runner/base/commands.h"
#include "runner/base/signals.h"
#include "runner/play/inference.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/dataset.h"

#include <inttypes.h>
#include <unistd.h>

static const char graph_text[] =
    "graph={values: {policy: {type: params}, batch_norm_stats: {type: batch_norm_stats, of: "
    "policy}, %s"
    " envs: {type: envs, per: shard, role: collector}, transition_log: {type: transition_log, per: "
    "shard}},"
    " iteration: [record: {transitions: %" PRId64
    ", epsilon: %.17g, reads: [policy, batch_norm_stats%s],"
    " updates: [envs], writes: [transition_log]},"
    " stop: {if: iteration >= 0, reason: recorded}]}";

struct record {
    const struct hd_options *options;
    struct hd_inference inference;
    struct hd_dataset_writer *writer;
    struct hd_dataset_info info;
    const struct hd_spec *transition_log;
    int value; /* its index */
    int64_t episodes;
    double returns; /* the sum over these */
    int64_t begin_ns, shown_ns;
};

/* -- Progress ---------------------------------------------------------------------------------- */

static void format_so_far(const struct record *record, int64_t transitions, char *line,
                          size_t bytes)
{
    int used = snprintf(line, bytes, "%" PRId64 " of %" PRId64 " transitions, %" PRId64 " %s",
                        transitions, record->info.transitions, record->episodes,
                        record->episodes == 1 ? "episode" : "episodes");
    if (record->episodes > 0)
        snprintf(line + used, bytes - (size_t)used, " of mean return %.6g",
                 record->returns / (double)record->episodes);
}

static void show_progress(struct record *record, int64_t round, int64_t rounds)
{
    enum { LOG_FILE_MS = 5000 };
    const bool terminal = hd_log_can_show_progress();
    const int64_t now_ns = hd_clock_get_ns();
    char line[160];
    if (record->options->quiet || round == rounds ||
        (!terminal && now_ns - record->shown_ns < LOG_FILE_MS * INT64_C(1000000)))
        return;
    record->shown_ns = now_ns;
    format_so_far(record, record->info.transitions * round / rounds, line, sizeof line);
    if (terminal)
        hd_log_show_progress(line);
    else
        hd_log(HD_LOG_INFO, "%s", line);
}

/* -- Playing ----------------------------------------------------------------------------------- */

static int play_round(struct record *record, int64_t round)
{
    const char *reason;
    int status = hd_executor_run(record->inference.executor, &reason);
    if (status != HD_OK)
        return hd_fail(status, "%s; nothing was written to %s",
                       hd_session_get_message(record->inference.session), record->options->out);
    const void *data = hd_executor_get_data(record->inference.executor, record->value, 0);
    hd_transition_log_add_episodes(record->transition_log, data, &record->episodes,
                                   &record->returns);
    return hd_transition_log_write(record->transition_log, data, round, record->writer);
}

static int play(struct record *record)
{
    const int64_t rounds = hd_transition_log_get_rounds(record->transition_log);
    hd_signals_set_started(0); /* before there is a folder that an interrupted recording removes */
    HD_TRY(hd_dataset_create(record->options->out, &record->info, rounds, &record->writer));
    for (int64_t round = 0; round < rounds; round++) {
        HD_TRY(play_round(record, round));
        show_progress(record, round + 1, rounds);
    }
    HD_TRY(hd_dataset_publish(record->writer));
    char line[160];
    format_so_far(record, record->info.transitions, line, sizeof line);
    hd_log_show_progress(NULL);
    hd_log(HD_LOG_INFO, "%s, in %.2f s; %" PRId64 " %s in %s", line,
           (double)(hd_clock_get_ns() - record->begin_ns) * 1e-9, rounds,
           rounds == 1 ? "file" : "files", record->options->out);
    return HD_OK;
}

/* -- Start ------------------------------------------------------------------------------------- */

static void describe(struct record *record)
{
    const struct hd_weights *weights = &record->inference.weights;
    const struct hd_graph *graph = record->inference.run_spec.graph;
    const int envs = hd_graph_find_value(graph, "envs");
    record->value = hd_graph_find_value(graph, "transition_log");
    record->transition_log = &graph->values[record->value].spec;
    hd_transition_log_describe(record->transition_log, &graph->values[envs].spec, &record->info);
    record->info.seed = graph->seed;
    record->info.policy = hd_value_hash(weights->params, weights->data);
    record->info.epsilon = record->options->epsilon;
}

static int add_sets(struct hd_options *options)
{
    if (!options->weights)
        return hd_fail(HD_ERR_INPUT,
                       "missing --weights FILE, such as ckpt/best of a run; or name the run "
                       "directory in place of the config");
    if (!options->out)
        return hd_fail(HD_ERR_INPUT, "missing --out DIR, a new directory");
    if (options->transitions == 0)
        return hd_fail(HD_ERR_INPUT, "missing --transitions N");
    bool normalised;
    HD_TRY(hd_weights_has_obs_norm(options->weights, &normalised));
    HD_TRY(hd_options_add_set(options,
                              hd_format(graph_text, normalised ? "obs_norm: {type: moments}," : "",
                                        options->transitions, options->epsilon,
                                        normalised ? ", obs_norm" : ""),
                              NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("strategy={}"), NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("policy.eval.video_every=0"), NULL));
    HD_TRY(hd_options_add_set(options, hd_strdup("world.shards=1"), NULL));
    /* All envs step together. */
    return hd_options_add_set(options, hd_strdup("policy.collect.env_groups=1"), NULL);
}

int hd_command_record(struct hd_options *options)
{
    struct record record = {.options = options, .begin_ns = hd_clock_get_ns()};
    record.shown_ns = record.begin_ns;
    hd_signals_catch();
    int status = hd_inference_find(options, &record.inference);
    if (status == HD_OK)
        status = add_sets(options);
    if (status == HD_OK)
        status = hd_inference_open(options, &hd_interrupted, &record.inference);
    if (status == HD_OK) {
        describe(&record);
        status = play(&record);
    }
    hd_dataset_destroy(record.writer);
    hd_inference_close(&record.inference);
    return hd_status_get_exit_code(status);
}
