/* SPDX-License-Identifier: Apache-2.0 */
/* runner calibrate: how long tasks take, from traces of short runs of one rank with one worker. */
#include "graph/runner/bench/bench.h"
#include "graph/runner/commands.h"
#include "graph/runner/simulate/facts.h"
#include "graph/simulate/calibration.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/io/files.h"

#include <stdlib.h>
#include <string.h>

/* A call of a body, or of a background task all calls. */
struct sample {
    const char *name; /* the JSON's */
    int iteration, shard, item, stage, bucket;
    double begin_s, length_s;
};

struct calibrating {
    json_t *strategies, *facts;
};

/* -- Samples ----------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->begin_s > y->begin_s) - (x->begin_s < y->begin_s);
}

static int compare_kinds(const struct sample *a, const struct sample *b)
{
    const int names = strcmp(a->name, b->name);
    return names != 0 ? names : a->stage != b->stage ? a->stage - b->stage : a->bucket - b->bucket;
}

static int by_kind(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    const int kinds = compare_kinds(x, y);
    return kinds != 0 ? kinds : (x->length_s > y->length_s) - (x->length_s < y->length_s);
}

/* Reads the events of worker 0, in order of begin. */
static int64_t read_samples(const json_t *events, struct sample *samples)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        struct sample sample;
        int lane;
        double begin_us, length_us;
        if (json_unpack(json_array_get(events, i),
                        "{s:s, s:i, s:F, s:F, s:{s:i, s:i, s:i, s:i, s:i}}", "name", &sample.name,
                        "tid", &lane, "ts", &begin_us, "dur", &length_us, "args", "iteration",
                        &sample.iteration, "shard", &sample.shard, "part", &sample.bucket, "item",
                        &sample.item, "stage", &sample.stage) != 0 ||
            lane != 0)
            continue;
        sample.begin_s = begin_us * 1e-6;
        sample.length_s = length_us * 1e-6;
        samples[n++] = sample;
    }
    qsort(samples, (size_t)n, sizeof *samples, by_begin);
    return n;
}

static const struct hd_submitted *find_node(const struct hd_submission *submission,
                                            const struct sample *sample)
{
    const struct hd_submitted *found = NULL;
    for (int i = 0; i < submission->n_nodes && !found; i++) {
        const struct hd_submitted *node = &submission->nodes[i];
        if (node->kind == HD_SUBMITTED_TASK && node->stage == sample->stage &&
            node->bucket == sample->bucket &&
            strcmp(submission->names[node->name], sample->name) == 0)
            found = node;
    }
    return found;
}

/* Makes one sample of the time slices of a background task, which come once in an iteration. */
static int64_t join_slices(const struct hd_submission *submission, struct sample *samples,
                           int64_t n)
{
    enum { LOOK_BACK = 4096 };
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct hd_submitted *node = find_node(submission, &samples[i]);
        int64_t j = kept;
        while (node && node->background && --j >= 0 && j > kept - LOOK_BACK)
            if (compare_kinds(&samples[i], &samples[j]) == 0 &&
                samples[i].iteration == samples[j].iteration &&
                samples[i].shard == samples[j].shard && samples[i].item == samples[j].item)
                break;
        if (node && node->background && j >= 0 && j > kept - LOOK_BACK)
            samples[j].length_s += samples[i].length_s;
        else
            samples[kept++] = samples[i];
    }
    return kept;
}

/* -- What they say ----------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* One worker is in a body, starts one, or submits: the typical gap between bodies is what starting
 * costs, and the rest of the time between bodies is what submission does. */
static int measure_overheads(const struct sample *samples, int64_t n,
                             struct hd_calibration *calibration)
{
    double *gaps = hd_alloc(n, sizeof *gaps), all_s = 0;
    if (!gaps)
        return HD_ERR_NOMEM;
    for (int64_t i = 1; i < n; i++) {
        const double gap = samples[i].begin_s - samples[i - 1].begin_s - samples[i - 1].length_s;
        gaps[i - 1] = gap > 0 ? gap : 0;
        all_s += gaps[i - 1];
    }
    qsort(gaps, (size_t)(n - 1), sizeof *gaps, by_value);
    calibration->start_s = gaps[(n - 1) / 2];
    const double rest_s = all_s / (double)(n - 1) - calibration->start_s;
    calibration->submit_s = rest_s > 0 ? rest_s : 0;
    hd_free(gaps);
    return HD_OK;
}

static double average(const struct sample *samples, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += samples[i].length_s;
    return sum / (double)(end - begin);
}

/* The samples of one kind are in order of length. */
static void add_times(const struct hd_submission *submission, const struct sample *samples,
                      int64_t n, struct hd_calibration *calibration)
{
    struct hd_task_times *times = &calibration->times[calibration->n_times++];
    const struct hd_submitted *node = find_node(submission, samples);
    *times = (struct hd_task_times){.stage = samples->stage,
                                    .bucket = samples->bucket,
                                    .count = n,
                                    .volume = node ? node->volume : 0};
    snprintf(times->name, sizeof times->name, "%s", samples->name);
    times->mean = average(samples, 0, n);
    for (int i = 0; i < HD_TENTHS; i++) {
        const int64_t begin = n * i / HD_TENTHS, end = n * (i + 1) / HD_TENTHS;
        times->tenths[i] = average(samples, begin, end > begin ? end : begin + 1);
    }
}

static int summarize(const struct hd_submission *submission, struct sample *samples, int64_t n,
                     struct hd_calibration *calibration)
{
    enum { TOO_FEW = 16 };
    if (n < TOO_FEW)
        return hd_fail(HD_ERR_INPUT, "the run was too short: --updates");
    HD_TRY(measure_overheads(samples, n, calibration));
    n = join_slices(submission, samples, n);
    qsort(samples, (size_t)n, sizeof *samples, by_kind);
    calibration->times = hd_alloc(n, sizeof *calibration->times);
    if (!calibration->times)
        return HD_ERR_NOMEM;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && compare_kinds(&samples[begin], &samples[end]) == 0;)
            end++;
        add_times(submission, samples + begin, end - begin, calibration);
    }
    return HD_OK;
}

/* Measures how fast two vectors are added that no cache holds. */
static int measure_adding(double *bytes_per_s_p)
{
    enum { FLOATS = 1 << 22, REPEATS = 8 };
    float *memory = hd_alloc(3 * (int64_t)FLOATS, sizeof *memory);
    if (!memory)
        return HD_ERR_NOMEM;
    const float *operands[] = {memory, memory + FLOATS};
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        const int64_t begin_ns = hd_clock_get_ns();
        hd_tree_add(2, operands, 1, 0, 0, FLOATS, memory + 2 * (int64_t)FLOATS);
        const int64_t ns = hd_clock_get_ns() - begin_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    hd_free(memory);
    *bytes_per_s_p = 3.0 * FLOATS * sizeof(float) / ((double)best_ns * 1e-9);
    return HD_OK;
}

/* -- Runs -------------------------------------------------------------------------------------- */

static int read_run(const struct hd_run_spec *run_spec, const json_t *events,
                    struct hd_calibration *calibration)
{
    const struct hd_comm_hosts one = {1, 1};
    struct hd_submission *submission;
    struct hd_peers *exchanges;
    enum { ITERATIONS = 4 };
    struct sample *samples = hd_alloc((int64_t)json_array_size(events) + 1, sizeof *samples);
    if (!samples)
        return HD_ERR_NOMEM;
    int status = hd_run_spec_record(run_spec, 0, 1, &one, ITERATIONS, &submission, &exchanges);
    if (status == HD_OK) {
        const int64_t n = read_samples(events, samples);
        status = summarize(submission, samples, n, calibration);
        hd_submission_release(submission);
        hd_peers_release(exchanges);
    }
    hd_free(samples);
    return status;
}

static int read_trace(const struct hd_run_spec *run_spec, const char *dir,
                      struct hd_calibration *calibration)
{
    char *path = hd_format("%s/trace.json", dir);
    json_t *trace = path ? json_load_file(path, 0, NULL) : NULL;
    int status = trace ? read_run(run_spec, json_object_get(trace, "traceEvents"), calibration)
                       : hd_fail(HD_ERR_FORMAT, "the run left no trace.json");
    json_decref(trace);
    hd_free(path);
    return status;
}

static int look_at(struct hd_bench *bench, int strategy, const struct hd_options *run_options,
                   const char *dir)
{
    struct calibrating *calibrating = bench->arg;
    const struct hd_rates *rates = &bench->strategies[strategy].runs[0];
    struct hd_calibration calibration = {.shards = rates->shards,
                                         .updates_per_s = hd_rates_get_updates_per_s(rates)};
    struct hd_run_spec run_spec;
    calibration.env_steps_per_update =
        rates->env_steps / (double)rates->updates / (double)rates->shards;
    HD_TRY(hd_run_spec_load(run_options, 1, &run_spec));
    int status = measure_adding(&calibration.bytes_per_s);
    if (status == HD_OK)
        status = read_trace(&run_spec, dir, &calibration);
    if (status == HD_OK) {
        json_object_set_new(calibrating->strategies, bench->strategies[strategy].name,
                            hd_calibration_write(&calibration));
        json_decref(calibrating->facts);
        calibrating->facts = hd_facts_list(&run_spec);
    }
    hd_calibration_release(&calibration);
    hd_run_spec_release(&run_spec);
    return status;
}

static int write_file(const struct hd_options *options, const struct calibrating *calibrating)
{
    const char *path = options->out ? options->out : "calibration.json";
    json_t *json = json_pack("{s:i, s:s, s:s, s:O, s:O}", "format", HD_CALIBRATION_FORMAT, "heddle",
                             HD_VERSION, "config", options->config, "facts", calibrating->facts,
                             "strategies", calibrating->strategies);
    char *text = json ? json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the calibration", path);
    const int status = hd_file_write_atomic(path, text, (int64_t)strlen(text));
    free(text);
    return status;
}

int hd_command_calibrate(struct hd_options *options)
{
    struct calibrating calibrating = {.strategies = json_object()};
    struct hd_bench bench = {.options = options, .look_at = look_at, .arg = &calibrating};
    options->strategies = options->strategies ? options->strategies : HD_ALL_STRATEGIES;
    options->repeats = 1;
    options->evaluate = true;
    int status = hd_options_add_set(options, hd_strdup("runtime.workers=1"), NULL);
    int code = status == HD_OK ? hd_bench_measure(&bench) : hd_status_get_exit_code(status);
    if (code == 0)
        code = hd_status_get_exit_code(write_file(options, &calibrating));
    hd_bench_release(&bench);
    json_decref(calibrating.strategies);
    json_decref(calibrating.facts);
    return code;
}
