/* SPDX-License-Identifier: Apache-2.0 */
/* One run of `runner bench`: a `runner run` of its own under the launcher, in a temporary
 * directory, and the line that tells of it. */
#include "runner/bench/bench.h"
#include "runner/bench/load.h"
#include "runner/bench/results.h"
#include "runner/history/history.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/launch/launch.h"
#include "runtime/machine/machine.h"
#include "runtime/machine/temp_dir.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -- What all lines of a call have ------------------------------------------------------------- */

/* Returns what `git describe` says in the folder of this program; null outside a checkout. */
static json_t *find_commit(void)
{
    char program[4096], text[64] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash || strchr(program, '\''))
        return json_null();
    *slash = '\0';
    char *command = hd_format("git -C '%s' describe --always --dirty 2>/dev/null", program);
    FILE *pipe = command ? popen(command, "r") : NULL;
    if (pipe && !fgets(text, sizeof text, pipe))
        text[0] = '\0';
    if (pipe)
        pclose(pipe);
    hd_free(command);
    text[strcspn(text, "\n")] = '\0';
    return text[0] ? json_string(text) : json_null();
}

static json_t *describe_machine(void)
{
    char cpu[HD_MACHINE_TEXT];
    hd_machine_read_cpu(cpu);
    return json_sprintf("%s, %ld CPUs", cpu[0] ? cpu : "unknown", sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *format_date(void)
{
    char text[16];
    time_t now = time(NULL);
    struct tm local;
    strftime(text, sizeof text, "%Y-%m-%d", localtime_r(&now, &local));
    return json_string(text);
}

static json_t *format_hash(uint64_t hash)
{
    return json_sprintf("%016" PRIx64, hash);
}

static json_t *list_texts(const char *const *texts, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

int hd_bench_begin_call(struct hd_bench *bench)
{
    const struct hd_options *options = bench->options;
    const char *sets[HD_SETS_MAX];
    for (int i = 0; i < options->n_sets; i++)
        sets[i] = options->sets[i].text;
    bench->common = json_pack("{s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "case",
                              options->to_goal ? HD_BENCH_GOAL : HD_BENCH_RATES, "call",
                              (json_int_t)(hd_clock_get_wall_ns() / 1000000), "config",
                              options->config, "sets", list_texts(sets, options->n_sets),
                              "base_hash", format_hash(bench->candidates.base_hash), "commit",
                              find_commit(), "machine", describe_machine(), "date", format_date());
    return bench->common ? HD_OK : HD_ERR_NOMEM;
}

/* -- Lines ------------------------------------------------------------------------------------- */

static json_t *list_verbs(const struct hd_rates *rates)
{
    json_t *verbs = json_object();
    for (int i = 0; i < rates->n_verbs; i++)
        json_object_set_new(
            verbs, rates->verbs[i].verb,
            json_real(rates->verbs[i].seconds / (rates->seconds * (double)rates->workers)));
    return verbs;
}

static json_t *describe_rates(const struct hd_options *options, const struct hd_rates *rates)
{
    return json_pack(
        "{s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}",
        "updates", options->updates, "warmup", options->warmup, "evaluations",
        (int)options->evaluate, "measured", (json_int_t)rates->updates, "ranks",
        (json_int_t)rates->ranks, "shards", (json_int_t)rates->shards, "workers",
        (json_int_t)rates->workers, "gpus", (json_int_t)rates->gpus, "updates_per_s",
        hd_rates_get_updates_per_s(rates), "env_steps_per_s", hd_rates_get_env_steps_per_s(rates),
        "busy", hd_rates_get_busy(rates), "exposed", hd_rates_get_exposed(rates), "idle",
        hd_rates_get_idle(rates), "gpu_busy", rates->gpus > 0 ? hd_rates_get_gpu_busy(rates) : 0.0,
        "verbs", list_verbs(rates), "param_hash", format_hash(rates->param_hash), "fingerprint",
        format_hash(rates->fingerprint));
}

static int describe_goal(const char *dir, json_t **members_p)
{
    json_t *result;
    HD_TRY(hd_run_dir_read_result(dir, &result));
    json_t *members = json_object();
    static const char *const names[][2] = {
        {"reached", "stop"},          {"reason", "reason"},           {"seed", "seed"},
        {"seconds", "wall_s"},        {"env_steps", "env_step"},      {"updates", "train_iter"},
        {"param_hash", "param_hash"}, {"fingerprint", "fingerprint"}, {"ranks", "ranks"},
        {"shards", "shards"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set(members, names[i][0], json_object_get(result, names[i][1]));
    json_decref(result);
    *members_p = members;
    return members ? HD_OK : HD_ERR_NOMEM;
}

static int write_line(struct hd_bench *bench, const json_t *line)
{
    char *text = bench->file ? json_dumps(line, JSON_REAL_PRECISION(8)) : NULL;
    if (!bench->file)
        return HD_OK;
    if (!text)
        return HD_ERR_NOMEM;
    const bool written = fprintf(bench->file, "%s\n", text) > 0 && fflush(bench->file) == 0;
    free(text);
    return written ? HD_OK
                   : hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", bench->options->json);
}

/* Completes a line by what is known of the run without looking at it. Takes `members`. */
static int add_line(struct hd_bench *bench, const struct hd_bench_run *run, json_t *members,
                    json_t *load)
{
    const struct hd_candidate *candidate = &bench->candidates.list[run->candidate];
    json_t *line = json_deep_copy(bench->common);
    json_t *more = json_pack("{s:s, s:s, s:o, s:i, s:i, s:o, s:o, s:o}", "candidate",
                             candidate->name, "strategy", candidate->strategy, "grid",
                             list_texts((const char *const *)candidate->sets, candidate->n_sets),
                             "lag", candidate->lag, "turn", run->turn, "config_hash",
                             format_hash(candidate->config_hash), "bits_hash",
                             format_hash(candidate->bits_hash), "load", load);
    const bool failed = !line || !more || json_object_update(line, more) != 0 ||
                        json_object_update(line, members) != 0;
    json_decref(more);
    json_decref(members);
    int status = failed ? HD_ERR_NOMEM : write_line(bench, line);
    if (json_array_append_new(bench->lines, line) != 0)
        status = HD_ERR_NOMEM;
    return status;
}

/* -- A run ------------------------------------------------------------------------------------- */

static int launch(const struct hd_options *run_options, const char *dir, bool trace)
{
    char after[16];
    const char *arguments[2 * HD_SETS_MAX + 16] = {"runner",  "run",   run_options->config,
                                                   "--quiet", "--dir", dir};
    int n = 6;
    snprintf(after, sizeof after, "%d", run_options->warmup);
    if (!run_options->to_goal) {
        arguments[n++] = "--measure-after";
        arguments[n++] = after;
    }
    if (run_options->evaluate)
        arguments[n++] = "--keep-evaluations";
    if (trace)
        arguments[n++] = "--trace";
    for (int i = 0; i < run_options->n_sets; i++) {
        arguments[n++] = "--set";
        arguments[n++] = run_options->sets[i].text;
    }
    arguments[n] = NULL;
    const struct hd_launch_options options = {
        .nproc_per_node = run_options->ranks, .nnodes = 1, .standalone = true};
    return hd_ranks_launch(&options, (char *const *)arguments);
}

/* Names the trace of a candidate, without the folder and ending of a strategy given as a path. */
static char *name_trace(const struct hd_candidate *candidate)
{
    const char *slash = strrchr(candidate->strategy, '/'),
               *name = slash ? slash + 1 : candidate->strategy;
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".yaml") == 0)
        length -= 5;
    char *path = hd_format("trace_%.*s%s.json", (int)length, name,
                           candidate->name + strlen(candidate->strategy));
    for (char *c = path; c && *c; c++)
        *c = *c == '/' || *c == ' ' ? '_' : *c;
    return path;
}

static int keep_trace(const char *from, const struct hd_candidate *candidate)
{
    char *to = name_trace(candidate), *text = NULL;
    int64_t bytes = 0;
    int status = to ? hd_file_read(from, HD_INPUT_RUN, &text, &bytes) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_file_write_atomic(to, text, bytes);
    hd_free(text);
    hd_free(to);
    return status;
}

/* Adds the iteration of a trace in the middle of what was measured to a line. */
static int add_trace(const struct hd_bench *bench, const struct hd_candidate *candidate,
                     const char *path, json_t *members)
{
    struct hd_trace_file *trace;
    if (bench->options->trace)
        HD_TRY(keep_trace(path, candidate));
    HD_TRY(hd_trace_file_read(path, &trace));
    const int64_t unit = candidate->unit > 0 ? candidate->unit : 1;
    const int failed = json_object_set_new(
        members, "trace", hd_trace_file_build_json(trace, bench->options->updates / unit / 2 + 1));
    hd_trace_file_release(trace);
    return failed ? HD_ERR_NOMEM : HD_OK;
}

/* Reads what a run of rates left, and has it looked at. */
static int read_rates(struct hd_bench *bench, const struct hd_candidate *candidate,
                      const struct hd_options *run_options, const char *dir, bool trace,
                      json_t **members_p)
{
    struct hd_rates rates;
    char *path = hd_format("%s/rates.json", dir), *events = hd_format("%s/trace.json", dir);
    int status = path && events ? hd_rates_read(path, &rates) : HD_ERR_NOMEM;
    json_t *members = status == HD_OK ? describe_rates(bench->options, &rates) : NULL;
    if (status == HD_OK && !members)
        status = HD_ERR_NOMEM;
    if (status == HD_OK && trace)
        status = add_trace(bench, candidate, events, members);
    if (status == HD_OK && bench->look_at)
        status = bench->look_at(bench->arg, candidate->strategy, &rates, run_options, dir);
    if (status == HD_OK)
        *members_p = members;
    else
        json_decref(members);
    hd_free(path);
    hd_free(events);
    return status;
}

static int make_run(struct hd_bench *bench, const struct hd_bench_run *run,
                    const struct hd_options *run_options, const char *dir)
{
    const struct hd_candidate *candidate = &bench->candidates.list[run->candidate];
    const struct hd_options *options = bench->options;
    const bool trace =
        run->is_last && !options->to_goal && (options->trace || options->page || options->json);
    struct hd_load before, after;
    json_t *members;
    hd_load_read(&before);
    const int code = launch(run_options, dir, trace || bench->look_at);
    hd_load_read(&after);
    if (code != 0 && code != hd_status_get_exit_code(HD_ERR_INTERRUPTED))
        hd_log(HD_LOG_ERROR, "'%s' could not be measured", candidate->name);
    if (code != 0)
        return code;
    int status = options->to_goal ? describe_goal(dir, &members)
                                  : read_rates(bench, candidate, run_options, dir, trace, &members);
    if (status == HD_OK)
        status = add_line(bench, run, members, hd_load_build_json(&before, &after));
    return hd_status_get_exit_code(status);
}

int hd_bench_make_run(struct hd_bench *bench, const struct hd_bench_run *run)
{
    struct hd_options run_options;
    char *dir = hd_format("%s/run", run->scratch);
    int status = dir ? hd_candidate_complete_options(&bench->candidates.list[run->candidate],
                                                     bench->options, run->seed, &run_options)
                     : HD_ERR_NOMEM;
    int code = hd_status_get_exit_code(status);
    if (status == HD_OK) {
        code = make_run(bench, run, &run_options, dir);
        hd_options_release(&run_options);
    }
    hd_temp_dir_remove(dir);
    return code;
}
